// The ranges of keys that the rows of a tile see by position, in lanes.
#pragma once

#include "kernels/cpu/attributes.h"
#include "kernels/cpu/vector.h"
#include "kernels/sequence.h"

namespace regard {

/// [begin, end) of keys, or of the elements of a product's depth.
struct Range {
  i64 begin, end;

  bool empty() const { return begin >= end; }
  bool meets(i64 first, i64 last) const { return begin < last && first < end; }
  REGARD_INLINE void join(const Range& other) {
    if (other.empty()) return;
    *this = empty() ? other : Range{smaller(begin, other.begin), larger(end, other.end)};
  }
};

/// The key ranges of the rows of a tile, one lane per row, and what they have in common.
template <int capacity>
struct TileKeyRanges {
  i32 lo[capacity], hi[capacity], sink_lo[capacity], sink_hi[capacity];
  i64 first, last;            // no row sees a key outside [first, last)
  i64 all_first, all_last;    // every row sees every key of [all_first, all_last)
  i64 sink_last, left_first;  // some row may see a key before sink_last; none in [sink_last, left_first)

  /// Lane i holds the row `row_of_lane(i)`.
  template <class RowOfLane>
  REGARD_NOINLINE void find(const Arguments& a, const Sequence& sequence, RowOfLane row_of_lane) {
    first = left_first = sequence.sk;
    last = all_first = sink_last = 0;
    all_last = sequence.sk;
    for (i64 i = 0; i < capacity; ++i) {
      const KeyRange keys = visible_keys(a, sequence, row_of_lane(i));
      lo[i] = static_cast<i32>(keys.lo);
      hi[i] = static_cast<i32>(keys.hi);
      sink_lo[i] = static_cast<i32>(keys.sink_lo);
      sink_hi[i] = static_cast<i32>(keys.sink_hi);
      all_first = larger(all_first, keys.lo);
      all_last = smaller(all_last, keys.hi);
      if (keys.empty()) continue;
      first = smaller(first, keys.first());
      if (keys.lo < keys.hi) left_first = smaller(left_first, keys.lo);
      last = larger(last, larger(keys.sink_hi, keys.lo < keys.hi ? keys.hi : 0));
      if (keys.sink_lo < keys.sink_hi) sink_last = larger(sink_last, keys.sink_hi);
    }
  }

  /// The rows [first_row, first_row + count); lanes behind the last one repeat it: they cost nothing.
  void find(const Arguments& a, const Sequence& sequence, i64 first_row, i64 count) {
    find(a, sequence, [=](i64 lane) { return first_row + smaller(lane, count - 1); });
  }

  /// The keys of [key, end) between the first and the last that some row may see; empty if there are none.
  Range seen(i64 key, i64 end) const {
    const i64 begin = larger(key, key < sink_last ? first : left_first);
    return {begin, smaller(end, end > left_first ? last : sink_last)};
  }
  bool sees_any(i64 key, i64 end) const { return !seen(key, end).empty(); }
  bool sees_all(i64 key, i64 end) const { return key >= all_first && end <= all_last; }

  /// What the lanes [lane, lane + lanes) see, in registers for many keys.
  struct Lanes {
    Ints lo, sink_lo;
    Words count, sink_count;
    bool sinks;

    REGARD_INLINE Ints see(i64 key) const {
      const Ints keys = broadcast(static_cast<i32>(key));
      const Ints seen = bits_as<Words>(keys - lo) < count;
      if (!sinks) return seen;
      return seen | (bits_as<Words>(keys - sink_lo) < sink_count);
    }
  };
  REGARD_INLINE Lanes lanes_from(i64 lane) const {
    const auto span = [](Ints begin, Ints end) {
      return bits_as<Words>(bits_as<Ints>(end - begin) & (end > begin));
    };
    const Ints low = load<Ints>(lo + lane), sink_low = load<Ints>(sink_lo + lane);
    return {low, sink_low, span(low, load<Ints>(hi + lane)), span(sink_low, load<Ints>(sink_hi + lane)),
            sink_last > 0};
  }

  /// Which of the lanes [lane, lane + lanes) see the key that `keys` has for them.
  REGARD_INLINE Ints visible(int lane, Ints keys) const {
    Ints result = (keys >= load<Ints>(lo + lane)) & (keys < load<Ints>(hi + lane));
    if constexpr (key::mask != Mask::none)
      result |= (keys >= load<Ints>(sink_lo + lane)) & (keys < load<Ints>(sink_hi + lane));
    return result;
  }
  REGARD_INLINE Ints visible(int lane, i64 key) const {
    return visible(lane, broadcast(static_cast<i32>(key)));
  }
};

}  // namespace regard
