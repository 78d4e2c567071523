// The learned sink: one score per query head in addition to those of the keys, without a value.
#pragma once

#include "kernels/numbers.h"
#include "kernels/split_keys.h"

namespace regard {

/// -infinity if there is none, and for a part of the keys: the merge of the parts adds it.
REGARD_INLINE float sink_of(const Arguments& a, const SplitKeys& keys, i64 head) {
  return a.sink && keys.splits <= 1 ? a.sink[head] : -infinity;
}

}  // namespace regard
