// Backward of few long heads has sums of dK and dV for each part of the queries, which are added up in the
// order of the parts, so that bits do not depend on the number of threads. With many threads each part has
// blocks of the grid of its own, which do not wait for those of others (backward_order.h); their sums lie in
// the workspace until backward_convert adds them up. With few a block of keys goes through all parts.
#pragma once

#include "kernels/sequence.h"

namespace regard {

/// How many parts the queries of a sequence fill; one without queries has one, whose sums are 0.
inline i64 parts_of(const Arguments& a, const Sequence& sequence) {
  return larger<i64>(1, ceil_divide(sequence.sq, a.part_queries));
}

/// Where the sums of a key of a K/V head stand among those of all: [query_parts][hk, tk].
inline i64 row_of_query_part(const Arguments& a, const Sequence& sequence, i64 part, i64 kv_head, i64 key) {
  return (part * a.hk + kv_head) * a.tk + first_key_of_all(a, sequence) + key;
}

}  // namespace regard
