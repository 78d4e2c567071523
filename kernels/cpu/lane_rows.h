// The query rows that share K and V, numbered through: all rows of their first head, then those of the next.
// The forward kernel has those of one head where the plan keeps heads apart, as with dropout, whose vectors
// of lanes draw for one head.
#pragma once

#include "kernels/cpu/attributes.h"
#include "kernels/cpu/head.h"

namespace regard {

/// The row with this number, of the heads from `first_head` on.
REGARD_INLINE HeadRow row_by_number(const Head& first_head, i64 number) {
  const i64 sq = first_head.sequence.sq;
  return {first_head.head + number / sq, number % sq};
}

/// Which row of which head each lane of a tile holds. Lanes behind the last row repeat it: they cost nothing
/// and are never stored.
template <int capacity>
struct LaneRows {
  i32 head[capacity], row[capacity];
  alignas(64) float slope[capacity];  // of ALiBi

  /// The rows numbered [first, first + count).
  REGARD_NOINLINE void find(const Head& first_head, i64 first, i64 count) {
    HeadRow place = row_by_number(first_head, first);
    for (i64 lane = 0; lane < capacity; ++lane) {
      head[lane] = static_cast<i32>(place.head);
      row[lane] = static_cast<i32>(place.row);
      if constexpr (alibi) slope[lane] = first_head.alibi_slope_of(place.head);
      if (lane + 1 < count && ++place.row == first_head.sequence.sq) place = {place.head + 1, 0};
    }
  }

  HeadRow at(i64 lane) const { return {head[lane], row[lane]}; }
  bool of_one_head() const { return head[0] == head[capacity - 1]; }
};

}  // namespace regard
