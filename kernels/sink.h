// The learned sink: a score of each query head beside those of the keys, without a value.
#pragma once

#include "kernels/numbers.h"
#include "kernels/split_keys.h"

namespace regard {

/// -infinity without one, and for a part of the keys: the merge of the parts adds it.
REGARD_INLINE float sink_of(const Arguments& a, const SplitKeys& keys, i64 head) {
  return a.sink && keys.splits <= 1 ? a.sink[head] : -infinity;
}

}  // namespace regard
