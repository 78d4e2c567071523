// The ranges of keys that the rows of a tile see by position, in lanes.
#pragma once

#include "kernels/cpu/attributes.h"
#include "kernels/cpu/vector.h"
#include "kernels/window.h"

namespace regard {

/// Some keys in two ranges, with a gap between them.
struct SeenKeys {
  Range part[2];
  REGARD_INLINE const Range* begin() const { return part; }
  REGARD_INLINE const Range* end() const { return part + 2; }
};

/// The keys of [key, end) without those that no row sees: sink tokens, and windows.
REGARD_INLINE SeenKeys seen_keys(const CommonKeys& common, i64 key, i64 end) {
  const Range between = common.between;
  const Range seen{larger(key, common.any.begin), smaller(end, common.any.end)};
  if (between.empty()) return {{seen, {0, 0}}};
  return {{{seen.begin, smaller(seen.end, between.begin)}, {larger(seen.begin, between.end), seen.end}}};
}

/// The same, counted from a key.
REGARD_INLINE SeenKeys counted_from(i64 key, SeenKeys seen) {
  for (Range& range : seen.part) range = {range.begin - key, range.end - key};
  return seen;
}

/// The key ranges of the rows of a tile, one lane per row, and what they have in common.
template <int capacity>
struct TileKeyRanges {
  i32 window_begin[capacity], window_end[capacity], sinks_begin[capacity], sinks_end[capacity];
  CommonKeys common;

  /// Lane i holds the row `row_of_lane(i)`.
  template <class RowOfLane>
  REGARD_NOINLINE void find(const Arguments& a, const Sequence& sequence, RowOfLane row_of_lane) {
    common = {{sequence.sk, 0}, {0, sequence.sk}, {0, sequence.sk}};
    for (i64 i = 0; i < capacity; ++i) {
      const auto [window, sinks] = visible_keys(a, sequence, row_of_lane(i));
      window_begin[i] = static_cast<i32>(window.begin);
      window_end[i] = static_cast<i32>(window.end);
      sinks_begin[i] = static_cast<i32>(sinks.begin);
      sinks_end[i] = static_cast<i32>(sinks.end);
      common.all = {larger(common.all.begin, window.begin), smaller(common.all.end, window.end)};
      if (window.empty() && sinks.empty()) continue;
      common.any.begin = smaller(common.any.begin, sinks.empty() ? window.begin : sinks.begin);
      if (!window.empty()) common.between.end = smaller(common.between.end, window.begin);
      common.any.end = larger(common.any.end, larger(sinks.end, window.empty() ? 0 : window.end));
      if (!sinks.empty()) common.between.begin = larger(common.between.begin, sinks.end);
    }
  }

  /// The rows [first_row, first_row + count); lanes past the last one repeat it, at no cost.
  void find(const Arguments& a, const Sequence& sequence, i64 first_row, i64 count) {
    find(a, sequence, [=](i64 lane) { return first_row + smaller(lane, count - 1); });
  }

  /// The keys of [key, end) between the first and the last that some row may see; empty if there are none.
  Range seen(i64 key, i64 end) const {
    const Range any = common.any, between = common.between;
    return {larger(key, key < between.begin ? any.begin : between.end),
            smaller(end, end > between.end ? any.end : between.begin)};
  }
  bool sees_any(i64 key, i64 end) const { return !seen(key, end).empty(); }
  bool sees_all(i64 key, i64 end) const { return common.sees_all(key, end); }

  /// The key ranges of the lanes [lane, lane + lanes), kept in registers for many keys.
  struct Lanes {
    Ints begin, first_sink;
    Words count, sink_count;
    bool sinks;

    REGARD_INLINE Ints see(i64 key) const {
      const Ints keys = broadcast(static_cast<i32>(key));
      const Ints seen = bits_as<Words>(keys - begin) < count;
      if (!sinks) return seen;
      return seen | (bits_as<Words>(keys - first_sink) < sink_count);
    }
  };
  REGARD_INLINE Lanes lanes_from(i64 lane) const {
    const auto span = [](Ints begin, Ints end) {
      return bits_as<Words>(bits_as<Ints>(end - begin) & (end > begin));
    };
    const Ints begin = load<Ints>(window_begin + lane), first_sink = load<Ints>(sinks_begin + lane);
    return {begin, first_sink, span(begin, load<Ints>(window_end + lane)),
            span(first_sink, load<Ints>(sinks_end + lane)), common.between.begin > 0};
  }

  /// Which of the lanes [lane, lane + lanes) see the key given for them in `keys`.
  REGARD_INLINE Ints visible(int lane, Ints keys) const {
    Ints result = (keys >= load<Ints>(window_begin + lane)) & (keys < load<Ints>(window_end + lane));
    if constexpr (config::mask != Mask::none)
      result |= (keys >= load<Ints>(sinks_begin + lane)) & (keys < load<Ints>(sinks_end + lane));
    return result;
  }
  REGARD_INLINE Ints visible(int lane, i64 key) const {
    return visible(lane, broadcast(static_cast<i32>(key)));
  }
};

}  // namespace regard
