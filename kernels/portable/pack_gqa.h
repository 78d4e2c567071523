// Query heads that share K and V and have one row each: packed, their rows are treated as those of one head,
// so that a block reads K and V once for all of them. The same kernel serves them, as only strides differ.
// With `pack_gqa` = 1 heads are not packed.
#pragma once

#include "kernels/arguments.h"
#include "kernels/workspace_rows.h"

namespace regard {

/// The groups of packed heads of a sequence, and the rows of each group in the longest sequence.
struct HeadGroups {
  u32 heads, rows;

  REGARD_INLINE HeadGroups(const Arguments& a, i64 pack_gqa)
      : heads(static_cast<u32>(pack_gqa > 1 ? a.hk : a.hq)),
        rows(static_cast<u32>(pack_gqa > 1 ? pack_gqa : a.sq)) {}
};

/// Which row of which query head a packed row is; `head`: the first of the packed heads.
REGARD_INLINE HeadRow row_of_group(i64 pack_gqa, i64 head, i64 row) {
  return pack_gqa > 1 ? HeadRow{head + row, 0} : HeadRow{head, row};
}

/// The distance from one packed row to the next.
REGARD_INLINE i64 pack_gqa_pitch(i64 pack_gqa, const Rows& rows) {
  return pack_gqa > 1 ? rows.head : rows.row;
}

}  // namespace regard
