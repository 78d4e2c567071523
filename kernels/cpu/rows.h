// Where a sequence lies in memory, and which keys each of its query rows sees by position.
#pragma once

#include "kernels/cpu/vector.h"

namespace regard {

struct Sequence {
  i64 batch;
  i64 first_q, first_k;  // first row in memory: the physical offset (varlen), else 0
  i64 sq, sk;            // logical lengths
};

inline i64 logical_length(const i32* lengths, i64 batch, i64 physical) {
  return lengths ? smaller<i64>(larger<i64>(lengths[batch], 0), physical) : physical;
}

inline Sequence sequence_of(const Arguments& a, i64 batch) {
  Sequence sequence{batch, 0, 0, a.sq, a.sk};
  if (a.offsets_q) {
    sequence.first_q = a.offsets_q[batch];
    sequence.sq = a.offsets_q[batch + 1] - a.offsets_q[batch];
  }
  if (a.offsets_k) {
    sequence.first_k = a.offsets_k[batch];
    sequence.sk = a.offsets_k[batch + 1] - a.offsets_k[batch];
  }
  sequence.sq = logical_length(a.lengths_q, batch, sequence.sq);
  sequence.sk = logical_length(a.lengths_k, batch, sequence.sk);
  return sequence;
}

/// The address of one row. Varlen tensors have a batch stride of 0.
template <class Element>
REGARD_INLINE Element* row_of(const Rows& rows, i64 batch, i64 head, i64 row) {
  return static_cast<Element*>(rows.data) + batch * rows.batch + head * rows.head + row * rows.row;
}

/// Key that lies on the diagonal of query row 0.
inline i64 diagonal(const Arguments& a, const Sequence& sequence) {
  return a.top_left ? 0 : sequence.sk - sequence.sq;
}

/// Keys [begin, end).
struct KeySpan {
  i64 begin, end;

  bool empty() const { return begin >= end; }
  bool meets(i64 first, i64 last) const { return begin < last && first < end; }
  void join(const KeySpan& other) {
    if (other.empty()) return;
    *this = empty() ? other : KeySpan{smaller(begin, other.begin), larger(end, other.end)};
  }
};

/// A row sees the keys [lo, hi) and, left of them, the sink tokens [sink_lo, sink_hi).
struct VisibleKeys {
  i64 lo, hi, sink_lo, sink_hi;
  bool empty() const { return lo >= hi && sink_lo >= sink_hi; }
  i64 first() const { return sink_lo < sink_hi ? sink_lo : lo; }
};

inline VisibleKeys visible_keys(const Arguments& a, const Sequence& sequence, i64 row) {
  VisibleKeys keys{0, sequence.sk, 0, 0};
  if constexpr (key::mask != Mask::none) {
    if (a.positional) {
      const i64 centre = row + diagonal(a, sequence);
      // -1 is unbounded; a window wider than the sequence cannot overflow the sum.
      if (a.window_right >= 0 && a.window_right < sequence.sk + sequence.sq)
        keys.hi = larger<i64>(smaller(keys.hi, centre + a.window_right + 1), 0);
      if (a.window_left >= 0 && a.window_left < sequence.sk + sequence.sq)
        keys.lo = larger<i64>(centre - a.window_left, 0);
      keys.sink_hi = smaller(a.sink_tokens, smaller(keys.lo, keys.hi));
    }
    if (a.ranges) {
      const i32* range = a.ranges + sequence.batch * a.ranges_batch + 2 * (sequence.first_q + row);
      keys.lo = larger<i64>(keys.lo, range[0]);
      keys.hi = smaller<i64>(keys.hi, range[1]);
      keys.sink_lo = larger<i64>(range[0], 0);
      keys.sink_hi = smaller<i64>(keys.sink_hi, range[1]);
    }
  }
  return keys;
}

/// The visible keys of the rows [first_row, first_row + count) of a tile, one lane per row, and what they
/// have in common.
template <int capacity>
struct TileRows {
  i32 lo[capacity], hi[capacity], sink_lo[capacity], sink_hi[capacity];
  i64 first, last;            // no row sees a key outside [first, last)
  i64 all_first, all_last;    // every row sees every key of [all_first, all_last)
  i64 sink_last, left_first;  // some row may see a key before sink_last; none in [sink_last, left_first)

  /// Lane i holds the row `row_of_lane(i)`.
  template <class RowOfLane>
  void find(const Arguments& a, const Sequence& sequence, RowOfLane row_of_lane) {
    first = left_first = sequence.sk;
    last = all_first = sink_last = 0;
    all_last = sequence.sk;
    for (i64 i = 0; i < capacity; ++i) {
      const VisibleKeys keys = visible_keys(a, sequence, row_of_lane(i));
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

  /// Consecutive rows. Lanes behind the last one repeat it: they cost nothing and are never stored.
  void find(const Arguments& a, const Sequence& sequence, i64 first_row, i64 count) {
    find(a, sequence, [=](i64 lane) { return first_row + smaller(lane, count - 1); });
  }

  /// Of the keys [key, end) those between the first and the last that some row may see; empty if none.
  KeySpan seen(i64 key, i64 end) const {
    const i64 begin = larger(key, key < sink_last ? first : left_first);
    return {begin, smaller(end, end > left_first ? last : sink_last)};
  }
  bool sees_any(i64 key, i64 end) const { return !seen(key, end).empty(); }
  bool sees_all(i64 key, i64 end) const { return key >= all_first && end <= all_last; }

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
