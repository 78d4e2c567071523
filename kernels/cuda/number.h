// 8-bit and 16-bit numbers, functions and bit operations in few instructions.
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

REGARD_DEVICE void multiply_add_pair(float (&x)[2], float factor, float addend) {
  x[0] = fmaf(x[0], factor, addend), x[1] = fmaf(x[1], factor, addend);
}
REGARD_DEVICE void add_pair(float (&sum)[2], const float (&x)[2]) {
  sum[0] += x[0], sum[1] += x[1];
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
/// The same, where a NaN may become any number.
template <DType dtype>
REGARD_DEVICE u32 pair_of_numbers(float low, float high) {
  return pair<dtype>(low, high);
}

/// Two neighbouring fp8 numbers as fp16, which is exact.
template <DType dtype>
REGARD_DEVICE u32 halves_of_fp8(u16 both) {
  u32 halves;
  if constexpr (dtype == DType::fp8)
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(halves) : "h"(both));
  else
    asm("cvt.rn.f16x2.e5m2x2 %0, %1;" : "=r"(halves) : "h"(both));
  return halves;
}

/// Four of the eight bytes of two words, whose numbers are the digits of `bytes`.
REGARD_DEVICE u32 byte_permute(u32 x, u32 y, u32 bytes) {
  return __byte_perm(x, y, bytes);
}

/// The i-th two of four 8-bit integers as fp16, which is exact: the bits of 1024 plus a number from 0 to 255,
/// less 1152.
REGARD_DEVICE u32 halves_of_int8(u32 four, i32 i) {
  const u32 both = byte_permute(four ^ 0x80808080u, 0x64646464u, i == 0 ? 0x4140 : 0x4342);
  u32 halves;
  asm("sub.f16x2 %0, %1, %2;" : "=r"(halves) : "r"(both), "r"(0x64806480u));
  return halves;
}

/// The i-th two of four, in fewer instructions.
template <DType dtype>
REGARD_DEVICE u32 halves_of_fp8(u32 four, i32 i) {
  u32 low, high;
  if constexpr (dtype == DType::fp8)
    asm("{\n .reg .b16 first, second;\n mov.b32 {first, second}, %2;\n cvt.rn.f16x2.e4m3x2 %0, first;\n"
        " cvt.rn.f16x2.e4m3x2 %1, second;\n}"
        : "=r"(low), "=r"(high)
        : "r"(four));
  else
    asm("{\n .reg .b16 first, second;\n mov.b32 {first, second}, %2;\n cvt.rn.f16x2.e5m2x2 %0, first;\n"
        " cvt.rn.f16x2.e5m2x2 %1, second;\n}"
        : "=r"(low), "=r"(high)
        : "r"(four));
  return i == 0 ? low : high;
}

REGARD_DEVICE float float_of_half(u16 bits) {
  float x;
  asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(bits));
  return x;
}

template <DType dtype>
constexpr float largest_fp8 = dtype == DType::fp8 ? 448 : 57344;

/// Two numbers, `low` in the low byte, rounded to nearest even; those beyond the largest become the largest.
template <DType dtype>
REGARD_DEVICE u16 fp8_pair(float low, float high) {
  u16 both;
  if constexpr (dtype == DType::fp8)
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(both) : "f"(high), "f"(low));
  else
    asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(both) : "f"(high), "f"(low));
  return both;
}
template <DType dtype>
REGARD_DEVICE u8 fp8_of(float x) {
  return static_cast<u8>(fp8_pair<dtype>(x, 0));
}

}  // namespace regard
