// The end of the softmax: LSE, and what O is divided by.
#pragma once

#include "kernels/machine/number.h"
#include "kernels/portable/shared_operand.h"

namespace regard {

/// Keeps small weights, of which a row can have many, above fp16's subnormal numbers, on GPUs whose products
/// take those as 0.
constexpr i32 p_exponent = operand == DType::fp16 && target::flushes_subnormals ? 8 : 0;

/// row_max in a form that can be subtracted from scores: any value will do for a row that has seen no key
/// yet.
REGARD_DEVICE float finite(float row_max) {
  return row_max == -infinity ? 0.0f : row_max;
}

struct PortableSoftmaxEnd {
  float inverse;  // 1 / sum, 0 for a row that sees no key
  float lse;      // natural logarithm; -infinity for a row that sees neither key nor sink
};

/// `natural`: from row_max to natural units, in which it is finite wherever a score is. The learned sink,
/// -infinity if there is none, is added here: a key with no value.
REGARD_DEVICE PortableSoftmaxEnd end_softmax(float row_max, float sum, float natural, float sink) {
  const bool seen = sum != 0;  // NaN if a score is NaN, which a maximum ignores
  float top = seen ? row_max * natural : -infinity;
  if constexpr (p_exponent != 0) top -= p_exponent / log2_of_e;
  const float highest = fmaxf(top, sink);
  const float weight = seen ? exp2((top - highest) * log2_of_e) : 0.0f;
  const float total = sum * weight + exp2((sink - finite(highest)) * log2_of_e);
  return {seen ? weight * reciprocal(total) : 0.0f, highest + logf(total)};
}

/// The row_max of a problem, from the largest score. It is NaN where the LSE is, as a maximum ignores NaN.
REGARD_DEVICE float row_max_of(float largest, float lse, float natural) {
  return lse == lse ? largest * natural : lse;
}

}  // namespace regard
