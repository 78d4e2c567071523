// 16-bit numbers, functions and bit operations in few instructions.
#pragma once

#include "kernels/cuda/warp.h"
#include "kernels/numbers.h"

namespace regard {

/// 2^x, within 2 units in the last place; results below 2^-126 are 0.
REGARD_DEVICE float exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

/// x, or `most` if that is smaller; NaN stays NaN.
REGARD_DEVICE float at_most(float x, float most) {
  if constexpr (!target::nan_min) return x > most ? most : x;
  float y;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(x), "f"(most));
  return y;
}

REGARD_DEVICE float reciprocal(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

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

/// A mask of the `count` lowest bits: none if it is negative, at most 32.
REGARD_DEVICE u32 low_bits(i32 count) {
  u32 bits;
  asm("bmsk.clamp.b32 %0, 0, %1;" : "=r"(bits) : "r"(max(count, 0)));
  return bits;
}

/// Two numbers rounded to nearest even, `low` in the low half.
template <DType dtype>
REGARD_DEVICE u32 pair(float low, float high) {
  u32 both;
  if constexpr (dtype == DType::bf16) {
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  } else if constexpr (target::f16_pairs) {
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  } else {  // one at a time
    asm("{\n .reg .b16 low, high;\n cvt.rn.f16.f32 low, %1;\n cvt.rn.f16.f32 high, %2;\n"
        " mov.b32 %0, {low, high};\n}"
        : "=r"(both)
        : "f"(low), "f"(high));
  }
  return both;
}

}  // namespace regard
