// Backward of few long heads, or groups of heads, has sums of dK and dV for each part of the queries: some
// rows of some heads of a group. They are added up in the order of the parts, so that bits do not depend on
// the number of threads. With many threads each part has blocks of the grid of its own, which do not wait for
// those of others (backward_order.h); of the blocks of the same keys the last to end adds up what the others
// have left in the workspace. With few a block of keys goes through all parts.
#pragma once

#include "kernels/cpu/attributes.h"
#include "kernels/cpu/backward_order.h"
#include "kernels/cpu/key_ranges.h"
#include "kernels/workspace_rows.h"

namespace regard {

/// How many parts the heads of a group are cut in. Parts are numbered by their rows, those of the same rows
/// by their heads.
inline i64 head_parts(const CpuBackwardArguments& a) {
  return ceil_divide(a.hq / a.hk, a.part_heads);
}

/// How many parts the queries of a sequence fill; one without queries has those of row 0, whose sums are 0.
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

/// How many parts have blocks of the grid of their own.
inline i64 parts_of_grid(const CpuBackwardArguments& a) {
  return a.parts_apart ? a.query_parts : 1;
}

/// What a query sees: a function, as it is asked for in several places, once per tile or more seldom.
REGARD_NOINLINE inline VisibleKeys keys_seen(const Arguments& a, const Sequence& sequence, i64 query) {
  return visible_keys(a, sequence, query);
}

/// The first part with a query that sees a key from `first_key` on: all behind it have one too, as no query
/// sees further than those that follow. Block 0 of the keys belongs to every part; keys that nobody sees
/// belong to those of the last rows.
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

/// Where the sums of a key of a K/V head stand among those of all parts.
inline i64 row_of_query_part(const Arguments& a, const Sequence& sequence, i64 part, i64 kv_head, i64 key) {
  return part * a.hk * a.tk + key_number(a, sequence, kv_head, key);
}

/// How many parts of the queries have ended with a block of keys, where each has blocks of its own.
class EndedParts {
 public:
  EndedParts(const CpuBackwardArguments& a, i64 batch, i64 kv_head, i64 block)
      : count_(a.progress + part_progress(a, batch, kv_head, 0) + block * progress_stride + ended_parts) {}

  i64 count() const { return __atomic_load_n(count_, __ATOMIC_ACQUIRE); }
  /// One more has. Returns how many had before.
  i64 add() const { return __atomic_fetch_add(count_, 1, __ATOMIC_ACQ_REL); }

 private:
  i64* count_;
};

}  // namespace regard
