// fp32 lanes to the 8-bit types of a KV cache, rounded to nearest even; numbers that are too large become the
// largest.
#pragma once

#include "kernels/cpu/convert.h"

namespace regard {

typedef u8 Bytes __attribute__((vector_size(target::vector_bytes / 4)));  // as many 8-bit lanes

template <DType dtype>
constexpr float largest_number = 0;
template <>
constexpr float largest_number<DType::fp8> = 448;
template <>
constexpr float largest_number<DType::fp8_fnuz> = 240;
template <>
constexpr float largest_number<DType::fp8_e5m2> = 57344;
template <>
constexpr float largest_number<DType::fp8_e5m2_fnuz> = 57344;
template <>
constexpr float largest_number<DType::int8> = 127;

template <DType dtype>
REGARD_INLINE Bytes eight_bits_of_floats(Floats x) {
  if constexpr (dtype == DType::int8) {
    constexpr float rounder = 0x1.8p23f;  // the sum has the integer's digits at the bottom
    const Floats within = min(max(select(x == x, x, Floats{}), broadcast(-128.0f)), broadcast(127.0f));
    return __builtin_convertvector(bits_as<Words>(rounded(within + rounder)) & 0xffu, Bytes);
  } else {
    using Bits = EightBits<dtype>;
    constexpr int dropped = 23 - Bits::mantissa, bias = Bits::bias;
    const Words all = bits_as<Words>(x), sign = (all >> 24) & 0x80u;
    const Words magnitude =
        bits_as<Words>(min(bits_as<Floats>(all & 0x7fffffffu), broadcast(largest_number<dtype>)));
    // Below the smallest normal number: the sum leaves the subnormal's bits, rounded, at the bottom of the
    // word.
    constexpr u32 one = static_cast<u32>(127 + 1 - bias + dropped) << 23;
    const Words subnormal = bits_as<Words>(rounded(bits_as<Floats>(magnitude) + bits_as<float>(one))) - one;
    const Words half = magnitude + ((1u << (dropped - 1)) - 1) + ((magnitude >> dropped) & 1u);
    const Words normal = (half >> dropped) - (static_cast<u32>(127 - bias) << Bits::mantissa);
    constexpr u32 smallest_normal = static_cast<u32>(128 - bias) << 23;
    const Words finite = magnitude < smallest_normal ? subnormal : normal;
    const Words number = Bits::fnuz ? (finite == 0 ? finite : finite | sign) : finite | sign;
    const Words bits = (all & 0x7fffffffu) > 0x7f800000u ? sign | Bits::not_a_number : number;
    return __builtin_convertvector(bits, Bytes);
  }
}

}  // namespace regard
