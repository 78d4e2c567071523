// 8-bit and 16-bit numbers, functions and bit operations in few instructions.
#pragma once

#include "kernels/eight_bits.h"
#include "kernels/hip/wave.h"

namespace regard {

/// 2^x, within 1 unit in the last place; results below 2^-126 are 0.
REGARD_DEVICE float exp2(float x) {
  return __builtin_amdgcn_exp2f(x);
}

/// Two numbers, which CDNA multiplies and adds by one instruction.
typedef float Floats __attribute__((vector_size(8)));

REGARD_DEVICE void multiply_add_pair(float (&x)[2], float factor, float addend) {
  Floats both = {x[0], x[1]};
  both = both * factor + addend;
  x[0] = both[0], x[1] = both[1];
}
REGARD_DEVICE void add_pair(float (&sum)[2], const float (&x)[2]) {
  const Floats both = Floats{sum[0], sum[1]} + Floats{x[0], x[1]};
  sum[0] = both[0], sum[1] = both[1];
}

/// x, or `most` if that is smaller; NaN stays NaN.
REGARD_DEVICE float at_most(float x, float most) {
  return x > most ? most : x;
}

REGARD_DEVICE float reciprocal(float x) {
  return __builtin_amdgcn_rcpf(x);
}

/// A mask of the `count` lowest bits: none if it is negative, at most 32.
REGARD_DEVICE u32 low_bits(i32 count) {
  return count >= 32 ? ~0u : (1u << larger(count, 0)) - 1;
}

REGARD_DEVICE u16 bits_of_half(float x) {
  return bits_as<u16>(static_cast<_Float16>(x));
}
REGARD_DEVICE float float_of_half(u16 bits) {
  return static_cast<float>(bits_as<_Float16>(bits));
}

/// bf16 in the high half, rounded to nearest even; the low half is undefined. NaN may become any number.
REGARD_DEVICE u32 bf16_of_number(float x) {
  const u32 bits = bits_as<u32>(x);
  return bits + 0x7fffu + (bits >> 16 & 1);
}
/// The same; NaN stays NaN.
REGARD_DEVICE u32 bf16_in_high_half(float x) {
  return x == x ? bf16_of_number(x) : bits_as<u32>(x) | 0x400000u;
}
REGARD_DEVICE u32 high_halves(u32 low, u32 high) {
  return __builtin_amdgcn_perm(high, low, 0x07060302u);
}

/// Two numbers rounded to nearest even, `low` in the low half.
template <DType dtype>
REGARD_DEVICE u32 pair(float low, float high) {
  if constexpr (dtype != DType::bf16) {
    return u32{bits_of_half(low)} | u32{bits_of_half(high)} << 16;
  } else if constexpr (target::bf16_convert) {
    typedef __bf16 Bf16s __attribute__((vector_size(4)));
    const Floats both = {low, high};
    return bits_as<u32>(__builtin_convertvector(both, Bf16s));
  } else {
    return high_halves(bf16_in_high_half(low), bf16_in_high_half(high));
  }
}
/// The same in fewer instructions, where a NaN may become any number.
template <DType dtype>
REGARD_DEVICE u32 pair_of_numbers(float low, float high) {
  if constexpr (dtype == DType::bf16 && !target::bf16_convert)
    return high_halves(bf16_of_number(low), bf16_of_number(high));
  else
    return pair<dtype>(low, high);
}

/// An 8-bit number as fp16. OCP's e5m2 is fp16's high byte. That of fnuz is half as large: the exponent is
/// one less or, if the result is subnormal, the bits are shifted. e4m3, whose exponent has one bit fewer, is
/// multiplied by the power of two by which it is too small in fp16's position.
template <DType dtype>
REGARD_DEVICE u32 half_of_fp8(u32 byte) {
  using Bits = EightBits<dtype>;
  if constexpr (dtype == DType::fp8_e5m2) return byte << 8;
  const u32 magnitude = byte & 0x7fu, sign = (byte & 0x80u) << 8;
  u32 number;
  if constexpr (Bits::e4m3) {
    constexpr _Float16 scale = 1 << (15 - Bits::bias);
    const _Float16 x = bits_as<_Float16>(static_cast<u16>(magnitude << 7)) * scale;
    number = bits_as<u16>(x);
  } else {
    number = magnitude < 8 ? magnitude << 7 : (magnitude << 8) - 0x400u;
  }
  return sign | ((Bits::fnuz ? byte : magnitude) == Bits::not_a_number ? 0x7e00u : number);
}
/// Two neighbouring fp8 numbers as fp16, which is exact.
template <DType dtype>
REGARD_DEVICE u32 halves_of_fp8(u16 both) {
  return half_of_fp8<dtype>(both & 0xffu) | half_of_fp8<dtype>(u32{both} >> 8) << 16;
}

template <DType dtype>
constexpr float largest_fp8 =
    bits_as<float>((EightBits<dtype>::largest << (23 - EightBits<dtype>::mantissa)) +
                   (static_cast<u32>(127 - EightBits<dtype>::bias) << 23));

/// Rounded to nearest even; numbers beyond the largest become the largest.
template <DType dtype>
REGARD_DEVICE u8 fp8_of(float x) {
  using Bits = EightBits<dtype>;
  constexpr i32 mantissa = Bits::mantissa, bias = Bits::bias;
  const u32 sign = bits_as<u32>(x) >> 24 & 0x80u;
  float size = fabsf(x);
  if (size != size) return static_cast<u8>(sign | Bits::not_a_number);
  size = size < largest_fp8<dtype> ? size : largest_fp8<dtype>;
  // Below the smallest normal number a sum with a power of two leaves the last digits that there are.
  constexpr float smallest = bits_as<float>(static_cast<u32>(127 + 1 - bias) << 23),
                  rounder = bits_as<float>(static_cast<u32>(127 + 1 - bias + 23 - mantissa) << 23);
  if (size < smallest) {
    const u32 bits = bits_as<u32>(size + rounder) - bits_as<u32>(rounder);
    return static_cast<u8>(Bits::fnuz && bits == 0 ? 0 : sign | bits);
  }
  constexpr i32 dropped = 23 - mantissa;
  const u32 bits = bits_as<u32>(size), half = (1u << (dropped - 1)) - 1 + (bits >> dropped & 1);
  const u32 rounded = (bits + half - (static_cast<u32>(127 - bias) << 23)) >> dropped;
  return static_cast<u8>(sign | rounded);
}
/// Two numbers, `low` in the low byte.
template <DType dtype>
REGARD_DEVICE u16 fp8_pair(float low, float high) {
  return static_cast<u16>(u32{fp8_of<dtype>(low)} | u32{fp8_of<dtype>(high)} << 8);
}

}  // namespace regard
