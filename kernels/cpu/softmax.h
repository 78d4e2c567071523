// The end of an online softmax: from the maximum and the sum of each lane's row to its LSE and the divisor
// of its output.
#pragma once

#include "kernels/cpu/exp.h"

namespace regard {

struct CpuSoftmaxEnd {
  Floats inverse;  // 1 / sum, 0 for a row that sees no key
  Floats lse;      // natural logarithm; -infinity for a row that sees neither key nor sink
};

/// `sum` is that of exp((score - maximum) * natural). The learned sink, in natural units (-infinity if there
/// is none), is added here: a key with no value. It cannot be the first maximum, as scores may not have been
/// scaled yet.
REGARD_INLINE CpuSoftmaxEnd end_softmax(Floats maximum, Floats sum, float natural, Floats sink) {
  // Tests the sum, which is NaN if a score is NaN; the maximum may have ignored that.
  const Ints seen = sum != 0.0f, joined = sink != -infinity;
  const Floats top = select(seen, maximum * natural, broadcast(-infinity));
  Floats row_max = top, weight = broadcast(1.0f), total = sum;
  if (any(joined)) {
    row_max = select(joined, max(top, sink), top);
    weight = select(joined, exp2((top - row_max) * log2_of_e), weight);
    weight = select(seen, weight, Floats{});
    total = select(joined, sum * weight + exp2((sink - row_max) * log2_of_e), sum);
  }
  const Ints any_key = seen | joined;  // the sink counts as one
  return {select(any_key, weight / total, Floats{}),
          select(any_key, row_max + log(total), broadcast(-infinity))};
}

/// The row_max of a problem, from the largest score. It is NaN where the sum is, as a maximum ignores NaN.
REGARD_INLINE Floats row_max_of(Floats largest, Floats sum, float natural) {
  const Ints seen = largest != -infinity;
  return select(sum == sum, select(seen, largest * natural, broadcast(-infinity)), sum);
}

}  // namespace regard
