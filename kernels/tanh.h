// tanh, exact near 0 and far from it.
#pragma once

#include "kernels/machine/number.h"

namespace regard {

/// tanh(x) for |x| up to `tanh_near_0_end`: x + tanh_3 x^3 + tanh_5 x^5 + tanh_7 x^7, with a relative error
/// below 7e-7, the smallest for a polynomial of this degree.
constexpr float tanh_3 = -0.33328159f, tanh_5 = 0.13205360f, tanh_7 = -0.044750664f;
constexpr float tanh_near_0_end = 0.5f;

REGARD_DEVICE float tanh_near_0(float x) {
  const float y = x * x, beyond = fmaf(y, fmaf(y, tanh_7, tanh_5), tanh_3);
  return fmaf(x * y, beyond, x);
}

/// tanh of any x, equally exact and without a branch. The other form loses all digits near 0.
REGARD_DEVICE float tanh(float x) {
  const float far = fmaf(-2.f, reciprocal(1 + exp2(x * (2 * log2_of_e))), 1.f);
  return x * x < tanh_near_0_end * tanh_near_0_end ? tanh_near_0(x) : far;
}

}  // namespace regard
