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
  const Ints seen = maximum != -infinity;
  const Floats top = select(seen, maximum * natural, broadcast(-infinity));
  const Floats one = broadcast(1.0f);
  const SoftmaxEnd keys{select(seen, one / sum, Floats{}),
                        select(seen, top + log(sum), broadcast(-infinity))};
  if (!any(sink != -infinity)) return keys;

  const Floats reference = max(top, sink);
  const Floats weight = select(seen, exp2((top - reference) * log2_of_e), Floats{});
  const Floats total = sum * weight + exp2((sink - reference) * log2_of_e);
  const Ints joined = sink != -infinity;
  return {select(joined, weight / total, keys.inverse), select(joined, reference + log(total), keys.lse)};
}

}  // namespace regard
