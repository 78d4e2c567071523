// How an online softmax ends: from the maximum and the sum of each lane's row to what its output is divided
// by and its LSE.
#pragma once

#include "kernels/cpu/exp.h"

namespace regard {

struct SoftmaxEnd {
  Floats inverse;  // 1 / sum, 0 for a row that sees no key
  Floats lse;      // natural logarithm; -infinity for a row that sees neither key nor sink
};

/// `sum` is that of exp((score - maximum) * natural). The learned sink, in natural units and -infinity
/// without one, joins here: a key with no value. It cannot be the first maximum, as scores may still wait for
/// their scale.
REGARD_INLINE SoftmaxEnd end_softmax(Floats maximum, Floats sum, float natural, Floats sink) {
  // By the sum, which is NaN where a score is: maxima may have passed over that.
  const Ints seen = sum != 0.0f, joined = sink != -infinity;
  const Floats top = select(seen, maximum * natural, broadcast(-infinity));
  Floats row_max = top, weight = broadcast(1.0f), total = sum;
  if (any(joined)) {
    row_max = select(joined, max(top, sink), top);
    weight = select(joined, exp2((top - row_max) * log2_of_e), weight);
    weight = select(seen, weight, Floats{});
    total = select(joined, sum * weight + exp2((sink - row_max) * log2_of_e), sum);
  }
  const Ints any_key = seen | joined;  // the sink is one, too
  return {select(any_key, weight / total, Floats{}),
          select(any_key, row_max + log(total), broadcast(-infinity))};
}

}  // namespace regard
