// Where a sequence lies in memory, and which keys each of its query rows sees by position.
#pragma once

#include "kernels/numbers.h"

namespace regard {

struct Sequence {
  i64 batch;
  i64 first_q, first_k;  // first row in memory: the physical offset (varlen), else 0
  i64 sq, sk;            // logical lengths
};

REGARD_INLINE i64 logical_length(const i32* lengths, i64 batch, i64 physical) {
  return lengths ? smaller<i64>(larger<i64>(lengths[batch], 0), physical) : physical;
}

REGARD_INLINE Sequence sequence_of(const Arguments& a, i64 batch) {
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

/// The number of a sequence's first key among those of all sequences.
REGARD_INLINE i64 first_key_of_all(const Arguments& a, const Sequence& sequence) {
  return a.offsets_k ? sequence.first_k : sequence.batch * a.sk;
}

/// Key that lies on the diagonal of query row 0.
REGARD_INLINE i64 diagonal(const Arguments& a, const Sequence& sequence) {
  return a.top_left ? 0 : sequence.sk - sequence.sq;
}

/// A row sees the keys [lo, hi) and, left of them, the sink tokens [sink_lo, sink_hi).
struct KeyRange {
  i64 lo, hi, sink_lo, sink_hi;
  REGARD_INLINE bool empty() const { return lo >= hi && sink_lo >= sink_hi; }
  REGARD_INLINE i64 first() const { return sink_lo < sink_hi ? sink_lo : lo; }
};

REGARD_INLINE KeyRange visible_keys(const Arguments& a, const Sequence& sequence, i64 row) {
  KeyRange keys{0, sequence.sk, 0, 0};
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

}  // namespace regard
