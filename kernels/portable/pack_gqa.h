// Query heads that share K and V: packed, their rows are treated as those of one head, so that a block reads
// K and V once for all of them. Rows are packed token by token: those of all heads for the first query, then
// for the second. With `pack_gqa` = 1 heads are not packed.
//
// Heads of one row each are rows at another stride, which costs a kernel nothing. Kernels that read pages
// take any number of rows (`packs_rows`).
#pragma once

#include "kernels/arguments.h"
#include "kernels/workspace_rows.h"

namespace regard {

constexpr bool packs_rows = config::paged;

/// The groups of packed heads of a sequence, and the rows of each group in the longest sequence.
struct HeadGroups {
  u32 heads, rows;

  REGARD_INLINE HeadGroups(const Arguments& a, i64 pack_gqa)
      : heads(static_cast<u32>(pack_gqa > 1 ? a.hk : a.hq)), rows(static_cast<u32>(pack_gqa * a.sq)) {}
};

/// Which row of which query head a packed row is; `head`: the first of the packed heads, which have one row
/// each.
REGARD_INLINE HeadRow row_of_group(i64 pack_gqa, i64 head, i64 row) {
  return pack_gqa > 1 ? HeadRow{head + row, 0} : HeadRow{head, row};
}

/// The distance from one packed row to the next, of heads of one row.
REGARD_INLINE i64 pack_gqa_pitch(i64 pack_gqa, const Rows& rows) {
  return pack_gqa > 1 ? rows.head : rows.row;
}

/// The query of a packed row, and which of the packed heads has it.
struct PackedRows {
  u32 heads;
  u64 inverse;  // 2^32 / heads, rounded up, by which the quotient of any row of a sequence is exact

  PackedRows() = default;
  REGARD_INLINE explicit PackedRows(i64 pack_gqa)
      : heads(static_cast<u32>(pack_gqa)), inverse(~0u / static_cast<u32>(pack_gqa) + u64{1}) {}

  REGARD_INLINE i32 query(i32 row) const { return static_cast<i32>(static_cast<u32>(row) * inverse >> 32); }
  REGARD_INLINE HeadRow of(i32 row) const {
    const i32 of_row = query(row);
    return {row - of_row * static_cast<i32>(heads), of_row};
  }
};

/// The offset of a row from the first one: rows are a stride apart, or packed, from row `first` on.
template <bool packed>
struct RowSteps {
  i64 pitch;
  REGARD_INLINE i64 at(i32 row) const { return row * pitch; }
  REGARD_INLINE i64 strides() const { return pitch; }  // what divides all of them divides this
};
template <>
struct RowSteps<true> {
  PackedRows rows;
  i32 first;
  i64 head, query;
  REGARD_INLINE i64 at(i32 row) const {
    const HeadRow of_row = rows.of(first + row);
    return of_row.head * head + of_row.row * query;
  }
  REGARD_INLINE i64 strides() const { return head | query; }
};

}  // namespace regard
