// Backward with few long heads, or groups of heads, keeps separate sums of dK and dV for each part of the
// queries: some rows of some heads of a group. They are added up in the order of the parts, so that bits do
// not depend on the number of threads. With many threads, each part has its own blocks of the grid, which do
// not wait for those of other parts (backward_order.h); of the blocks of the same keys, the last one to
// finish adds up what the others have left in the workspace. With few threads, each block of keys handles all
// parts.
#pragma once

#include "kernels/cpu/attributes.h"
#include "kernels/cpu/backward_order.h"
#include "kernels/cpu/key_ranges.h"
#include "kernels/workspace_rows.h"

namespace regard {

/// How many parts the heads of a group are cut into. Parts are numbered by rows first, then by heads.
inline i64 head_parts(const CpuBackwardArguments& a) {
  return ceil_divide(a.hq / a.hk, a.part_heads);
}

/// How many parts the queries of a sequence fill; a sequence without queries has the parts of row 0, whose
/// sums are 0.
inline i64 parts_of(const CpuBackwardArguments& a, const Sequence& sequence) {
  return larger<i64>(1, ceil_divide(sequence.sq, a.part_queries)) * head_parts(a);
}

/// A part: rows and query heads, counted within the group.
struct PartOfQueries {
  Range rows, heads;
  PartOfQueries(const CpuBackwardArguments& a, const Sequence& sequence, i64 number) {
    const i64 first = number / head_parts(a) * a.part_queries;
    const i64 head = number % head_parts(a) * a.part_heads;
    rows = {first, smaller(first + a.part_queries, sequence.sq)};
    heads = {head, smaller(head + a.part_heads, a.hq / a.hk)};
  }
};

/// How many parts have their own blocks of the grid.
inline i64 parts_of_grid(const CpuBackwardArguments& a) {
  return a.parts_apart ? a.query_parts : 1;
}

/// What a query sees: not inlined, as it is used in several places, at most once per tile.
REGARD_NOINLINE inline VisibleKeys keys_seen(const Arguments& a, const Sequence& sequence, i64 query) {
  return visible_keys(a, sequence, query);
}

/// The first part with a query that sees a key from `first_key` on: all later parts have one too, as no
/// query sees further than the queries after it. Block 0 of the keys belongs to every part; keys that no
/// query sees belong to the parts of the last rows.
REGARD_NOINLINE inline i64 first_part_that_sees(const CpuBackwardArguments& a, const Sequence& sequence,
                                                i64 first_key) {
  if (first_key == 0 || a.ranges) return 0;
  const i64 of_rows = head_parts(a), last = parts_of(a, sequence) - of_rows;
  i64 part = 0;
  while (part < last &&
         keys_seen(a, sequence, PartOfQueries(a, sequence, part).rows.end - 1).window.end <= first_key)
    part += of_rows;
  return part;
}

/// The index of the sums of a key of a K/V head among those of all parts.
inline i64 row_of_query_part(const Arguments& a, const Sequence& sequence, i64 part, i64 kv_head, i64 key) {
  return part * a.hk * a.tk + key_number(a, sequence, kv_head, key);
}

/// Counts the parts of the queries that have finished with a block of keys, if each part has its own blocks.
class EndedParts {
 public:
  EndedParts(const CpuBackwardArguments& a, i64 batch, i64 kv_head, i64 block)
      : count_(a.progress + part_progress(a, batch, kv_head, 0) + block * progress_stride + ended_parts) {}

  i64 count() const { return __atomic_load_n(count_, __ATOMIC_ACQUIRE); }
  /// Adds one. Returns the previous count.
  i64 add() const { return __atomic_fetch_add(count_, 1, __ATOMIC_ACQ_REL); }

 private:
  i64* count_;
};

}  // namespace regard
