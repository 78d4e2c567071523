// Which keys the rows of a sequence see by position, and which rows see a key.
#pragma once

#include "kernels/range.h"
#include "kernels/sequence.h"

namespace regard {

/// Row i sees the keys from i + diagonal - left to i + diagonal + right that exist and, among the first
/// `sinks` keys, those that are not beyond its right edge. Both edges rise with the row.
template <class Integer>
struct BasicWindow {
  Integer rows, keys;   // of the sequence
  Integer diagonal;     // key of row 0 on the diagonal
  Integer left, right;  // of the diagonal; negative: unbounded
  Integer sinks;        // first keys that the left edge does not hide

  BasicWindow() = default;
  REGARD_INLINE BasicWindow(const Arguments& a, const BasicSequence<Integer>& sequence)
      : rows(sequence.sq),
        keys(sequence.sk),
        diagonal(a.top_left ? 0 : sequence.bottom_right()),
        left(at_most_farthest(a.window_left)),
        right(at_most_farthest(a.window_right)),
        sinks(at_most_farthest(a.sink_tokens)) {}

  /// The window relative to a part of the keys, which is like a separate sequence: keys count from its first
  /// one.
  REGARD_INLINE BasicWindow of_part(Integer first_key, Integer count) const {
    BasicWindow part = *this;
    part.keys = larger<Integer>(0, smaller<Integer>(keys - first_key, count));
    part.diagonal -= first_key;
    part.sinks -= first_key;
    return part;
  }

  /// What a row sees, except sink tokens. If that is nothing, the end may be negative, and the begin past
  /// the keys.
  REGARD_INLINE BasicRange<Integer> keys_of(Integer row) const {
    BasicRange<Integer> range{0, keys};
    if constexpr (config::mask != Mask::none) {
      const Integer center = row + diagonal;
      if (left >= 0) range.begin = larger<Integer>(0, center - left);
      if (right >= 0) range.end = smaller<Integer>(keys, center + right + 1);
    }
    return range;
  }
  /// The sink tokens to the left of it.
  REGARD_INLINE BasicRange<Integer> sinks_beside(const BasicRange<Integer>& keys_of_row) const {
    return {0, smaller(sinks, smaller(keys_of_row.begin, keys_of_row.end))};
  }

  /// The rows that have one of these keys between their edges; if there are none, the begin may be past the
  /// rows, and the end negative.
  REGARD_INLINE BasicRange<Integer> rows_of(const BasicRange<Integer>& some) const {
    BasicRange<Integer> range{0, rows};
    if constexpr (config::mask != Mask::none) {
      if (right >= 0) range.begin = larger<Integer>(0, some.begin - right - diagonal);
      if (left >= 0) range.end = smaller<Integer>(rows, some.end + left - diagonal);
    }
    return range;
  }
  /// The rows that may see one of these keys, including as a sink token.
  REGARD_INLINE BasicRange<Integer> rows_that_see(const BasicRange<Integer>& some) const {
    BasicRange<Integer> range = rows_of(some);
    if (some.begin < sinks) range.end = rows;
    return range;
  }

 private:
  /// Limits a distance so that a window wider than any sequence cannot overflow a sum.
  REGARD_INLINE static Integer at_most_farthest(i64 distance) {
    constexpr i64 farthest = i64{1} << (8 * sizeof(Integer) - 2);
    return static_cast<Integer>(smaller(distance, farthest));
  }
};

using Window = BasicWindow<i64>;
using Window32 = BasicWindow<i32>;

/// What a row sees: the keys of its window and, left of them, sink tokens.
template <class Integer>
struct alignas(16) BasicVisibleKeys {
  BasicRange<Integer> window, sinks;

  REGARD_INLINE bool empty() const { return window.empty() && sinks.empty(); }
  REGARD_INLINE Integer first() const { return sinks.empty() ? window.begin : sinks.begin; }
};
using VisibleKeys = BasicVisibleKeys<i64>;
using VisibleKeys32 = BasicVisibleKeys<i32>;

/// By position and by the ranges of the call.
template <class Integer>
REGARD_INLINE BasicVisibleKeys<Integer> visible_keys(const Arguments& a,
                                                     const BasicSequence<Integer>& sequence, i64 row) {
  const BasicWindow<Integer> window(a, sequence);
  BasicVisibleKeys<Integer> keys{window.keys_of(static_cast<Integer>(row)), {0, 0}};
  if constexpr (config::mask != Mask::none) {
    keys.sinks = window.sinks_beside(keys.window);
    if (a.ranges) {
      const i32* range = a.ranges + sequence.batch * a.ranges_batch + 2 * (sequence.first_q + row);
      keys.window.begin = larger<Integer>(keys.window.begin, range[0]);
      keys.window.end = smaller<Integer>(keys.window.end, range[1]);
      keys.sinks.begin = larger<Integer>(range[0], 0);
      keys.sinks.end = smaller<Integer>(keys.sinks.end, range[1]);
    }
  }
  return keys;
}

/// What the keys that several rows see have in common.
template <class Integer>
struct BasicCommonKeys {
  BasicRange<Integer> any;      // no row sees a key outside
  BasicRange<Integer> all;      // every row sees every key inside
  BasicRange<Integer> between;  // the sink tokens and the first window: no row sees a key inside

  REGARD_INLINE bool sees_all(Integer begin, Integer end) const {
    return begin >= all.begin && end <= all.end;
  }
};
using CommonKeys = BasicCommonKeys<i64>;
using CommonKeys32 = BasicCommonKeys<i32>;

}  // namespace regard
