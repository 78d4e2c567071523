// Logarithms and 8-bit and 16-bit numbers, in few instructions.
#pragma once

#include "kernels/cuda/number.h"
#include "kernels/numbers.h"

namespace regard {

constexpr float ln_2 = 0.693147180559945309f;

REGARD_DEVICE float log2(float x) {
  float y;
  asm("lg2.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

REGARD_DEVICE constexpr float to_the_power(i32 power) {
  return __builtin_bit_cast(float, static_cast<u32>(127 + power) << 23);
}

/// Four rounded to e4m3, the first in the lowest byte.
REGARD_DEVICE u32 four_e4m3(float a, float b, float c, float d) {
  u32 all;
  asm("{\n .reg .b16 l, h;\n cvt.rn.satfinite.e4m3x2.f32 l, %2, %1;\n cvt.rn.satfinite.e4m3x2.f32 h, %4, "
      "%3;\n "
      "mov.b32 %0, {l, h};\n}"
      : "=r"(all)
      : "f"(a), "f"(b), "f"(c), "f"(d));
  return all;
}
}  // namespace regard
