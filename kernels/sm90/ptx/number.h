// Exponentials, pairs of bf16, and what the four threads of a row agree on.
#pragma once

#include "kernels/sm90/ptx/types.h"

namespace regard {

constexpr float infinity = __builtin_bit_cast(float, 0x7f800000);
constexpr float ln_2 = 0.693147180559945309f, log2_e = 1.44269504088896341f;

/// 2^x, within 2 units in the last place; results below 2^-126 are 0.
REGARD_DEVICE float exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
REGARD_DEVICE float log2(float x) {
  float y;
  asm("lg2.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

/// Two numbers as bf16, rounded to nearest even; `low` in the low half.
REGARD_DEVICE u32 pair(float low, float high) {
  u32 both;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  return both;
}
REGARD_DEVICE u32 max_pair(u32 a, u32 b) {
  u32 most;
  asm("max.bf16x2 %0, %1, %2;" : "=r"(most) : "r"(a), "r"(b));
  return most;
}
/// The larger one of a pair.
REGARD_DEVICE float highest(u32 both) {
  return fmaxf(__uint_as_float(both << 16), __uint_as_float(both & 0xffff0000u));
}

constexpr u32 whole_warp = 0xffffffffu;

REGARD_DEVICE float quad_max(float x) {
  x = fmaxf(x, __shfl_xor_sync(whole_warp, x, 1));
  return fmaxf(x, __shfl_xor_sync(whole_warp, x, 2));
}
REGARD_DEVICE float quad_sum(float x) {
  x += __shfl_xor_sync(whole_warp, x, 1);
  return x + __shfl_xor_sync(whole_warp, x, 2);
}

}  // namespace regard
