// Where a sequence is stored in memory.
#pragma once

#include "kernels/numbers.h"

namespace regard {

/// Kernels with few registers count in 32 bits.
template <class Integer>
struct BasicSequence {
  Integer batch;
  Integer first_q, first_k;  // first row in memory: the physical offset (varlen), else 0
  Integer sq, sk;            // logical lengths

  /// Key of row 0 on the bottom-right diagonal, from which ALiBi measures regardless of the mask.
  REGARD_INLINE Integer bottom_right() const { return sk - sq; }
};
using Sequence = BasicSequence<i64>;
using Sequence32 = BasicSequence<i32>;

template <class Integer>
REGARD_INLINE Integer logical_length(const i32* lengths, i64 batch, Integer physical) {
  return lengths ? smaller<Integer>(larger<Integer>(lengths[batch], 0), physical) : physical;
}

/// A sequence that fills its tensors.
template <class Integer = i64>
REGARD_INLINE BasicSequence<Integer> whole_sequence(const Arguments& a, i64 batch) {
  return {static_cast<Integer>(batch), 0, 0, static_cast<Integer>(a.sq), static_cast<Integer>(a.sk)};
}

template <class Integer = i64>
REGARD_INLINE BasicSequence<Integer> sequence_of(const Arguments& a, i64 batch) {
  BasicSequence<Integer> sequence = whole_sequence<Integer>(a, batch);
  if (a.offsets_q) {
    sequence.first_q = a.offsets_q[batch];
    sequence.sq = a.offsets_q[batch + 1] - a.offsets_q[batch];
  }
  if (a.offsets_k) {
    sequence.first_k = a.offsets_k[batch];
    sequence.sk = a.offsets_k[batch + 1] - a.offsets_k[batch];
  }
  sequence.sq = logical_length<Integer>(a.lengths_q, batch, sequence.sq);
  sequence.sk = logical_length<Integer>(a.lengths_k, batch, sequence.sk);
  return sequence;
}

/// The number of a row's first element. Varlen tensors have a batch stride of 0.
REGARD_INLINE i64 element_of(const Rows& rows, i64 batch, i64 head, i64 row) {
  return batch * rows.batch + head * rows.head + row * rows.row;
}

/// The address of one row.
template <class Element>
REGARD_INLINE Element* row_of(const Rows& rows, i64 batch, i64 head, i64 row) {
  return static_cast<Element*>(rows.data) + element_of(rows, batch, head, row);
}

}  // namespace regard
