// Numbers of 16 bits and powers of two, as NVIDIA's instructions make them.
#pragma once

#include "kernels/cuda/warp.h"

namespace regard {

/// 2^x, within 2 units in the last place; results below 2^-126 are 0.
REGARD_DEVICE float exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

/// Two numbers rounded to nearest even, `low` in the low half.
template <DType dtype>
REGARD_DEVICE u32 pair(float low, float high) {
  u32 both;
  if constexpr (dtype == DType::bf16) {
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  } else if constexpr (target::cp_async) {
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  } else {  // sm_75 converts one at a time
    asm("{\n .reg .b16 low, high;\n cvt.rn.f16.f32 low, %1;\n cvt.rn.f16.f32 high, %2;\n"
        " mov.b32 %0, {low, high};\n}"
        : "=r"(both)
        : "f"(low), "f"(high));
  }
  return both;
}

}  // namespace regard
