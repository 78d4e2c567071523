// The index of a row, or of a key, in the workspace.
#pragma once

#include "kernels/arguments.h"
#include "kernels/inline.h"

namespace regard {

/// A row of a head. The functions below take any type with these members, also in 32 bits.
struct HeadRow {
  i64 head, row;
};

/// The number of a row among those of all heads: [b, hq, sq] (varlen: [hq, tq]).
template <class Sequence, class AnyHeadRow>
REGARD_INLINE i64 row_number(const Arguments& a, const Sequence& sequence, const AnyHeadRow& head_row) {
  return a.offsets_q ? head_row.head * a.tq + sequence.first_q + head_row.row
                     : (sequence.batch * a.hq + head_row.head) * a.sq + head_row.row;
}

/// The number of a key among those of all K/V heads: [b, hk, sk] (varlen: [hk, tk]).
template <class Sequence>
REGARD_INLINE i64 key_number(const Arguments& a, const Sequence& sequence, i64 kv_head, i64 key) {
  return a.offsets_k ? kv_head * a.tk + sequence.first_k + key
                     : (sequence.batch * a.hk + kv_head) * a.sk + key;
}

/// The distance from a row to the same row in the results of the next part of the keys.
REGARD_INLINE i64 rows_of_part(const Arguments& a) {
  return a.hq * a.tq;
}

}  // namespace regard
