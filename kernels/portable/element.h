// 8-bit, 16-bit and 32-bit numbers in memory to fp32 and back, rounded to nearest even.
#pragma once

#include "kernels/machine/number.h"
#include "kernels/machine/thread.h"

namespace regard {

template <DType dtype>
REGARD_DEVICE float load_element(const u8* data, i64 index) {
  if constexpr (dtype == DType::fp32) {
    return global(reinterpret_cast<const float*>(data))[index];
  } else if constexpr (dtype == DType::bf16) {
    return bits_as<float>(u32{global(reinterpret_cast<const u16*>(data))[index]} << 16);
  } else if constexpr (dtype == DType::fp16) {
    return float_of_half(global(reinterpret_cast<const u16*>(data))[index]);
  } else {
    return float_of_half(static_cast<u16>(halves_of_fp8<dtype>(global(data)[index])));
  }
}

/// By the bits of 2^23 plus a number from 0 to 255, because conversions of integers are slow.
REGARD_DEVICE float float_of_int8(u32 byte) {
  return bits_as<float>(0x4b000000u | ((byte & 0xffu) ^ 0x80u)) - 8388736.0f;  // 2^23 + 128
}

/// Two neighbouring 8-bit numbers as 16-bit ones, which is exact; `factor` is 1, or the result is rounded.
template <DType stored, DType to, bool scaled>
REGARD_DEVICE u32 widened(u16 both, float factor) {
  static_assert(bytes_of<stored> == 1 && bytes_of<to> == 2);
  float x[2];
  if constexpr (stored == DType::int8) {
    x[0] = float_of_int8(both), x[1] = float_of_int8(u32{both} >> 8);
  } else {
    const u32 halves = halves_of_fp8<stored>(both);
    if constexpr (to == DType::fp16 && !scaled) return halves;
    x[0] = float_of_half(static_cast<u16>(halves)), x[1] = float_of_half(static_cast<u16>(halves >> 16));
  }
  if constexpr (scaled) x[0] *= factor, x[1] *= factor;
  return pair<to>(x[0], x[1]);
}

/// Eight neighbours by their words.
template <DType dtype>
REGARD_DEVICE void elements_of(float (&x)[8], const u32 (&words)[2 * bytes_of<dtype>]) {
  static_assert(bytes_of<dtype> > 1);
#pragma unroll
  for (i32 i = 0; i < 8; ++i) {
    if constexpr (dtype == DType::fp32)
      x[i] = bits_as<float>(words[i]);
    else if constexpr (dtype == DType::bf16)
      x[i] = bits_as<float>(i % 2 == 0 ? words[i / 2] << 16 : words[i / 2] & 0xffff0000u);
    else
      x[i] = float_of_half(static_cast<u16>(words[i / 2] >> 16 * (i % 2)));
  }
}

/// Neighbouring words, 2 or a multiple of 4, aligned to 8 or 16 bytes.
template <i32 count>
REGARD_DEVICE void load_words(u32 (&words)[count], const u8* from) {
  static_assert(count == 2 || count % 4 == 0);
  if constexpr (count == 2) {
    const uint2 both = *reinterpret_cast<const uint2*>(from);
    words[0] = both.x, words[1] = both.y;
  } else {
#pragma unroll
    for (i32 i = 0; i < count; i += 4) {
      const uint4 four = reinterpret_cast<const uint4*>(from)[i / 4];
      words[i] = four.x, words[i + 1] = four.y, words[i + 2] = four.z, words[i + 3] = four.w;
    }
  }
}

/// Eight neighbours, aligned to 16 bytes.
template <DType dtype>
REGARD_DEVICE void load_elements(float (&x)[8], const u8* from) {
  u32 words[2 * bytes_of<dtype>];
  load_words(words, from);
  elements_of<dtype>(x, words);
}

/// Four neighbours, aligned to their size.
template <DType dtype>
REGARD_DEVICE void load_elements(float (&x)[4], const u8* from) {
  static_assert(bytes_of<dtype> > 1);
  if constexpr (dtype == DType::fp32) {
    const float4 four = *reinterpret_cast<const float4*>(from);
    x[0] = four.x, x[1] = four.y, x[2] = four.z, x[3] = four.w;
  } else {
    const uint2 both = *reinterpret_cast<const uint2*>(from);
    const u32 words[2] = {both.x, both.y};
#pragma unroll
    for (i32 i = 0; i < 4; ++i) {
      if constexpr (dtype == DType::bf16)
        x[i] = bits_as<float>(i % 2 == 0 ? words[i / 2] << 16 : words[i / 2] & 0xffff0000u);
      else
        x[i] = float_of_half(static_cast<u16>(words[i / 2] >> 16 * (i % 2)));
    }
  }
}

template <DType dtype>
REGARD_DEVICE void store_element(u8* data, i64 index, float x) {
  if constexpr (dtype == DType::fp32) {
    reinterpret_cast<float*>(data)[index] = x;
  } else if constexpr (bytes_of<dtype> == 2) {
    reinterpret_cast<u16*>(data)[index] = static_cast<u16>(pair<dtype>(x, 0));
  } else {
    data[index] = fp8_of<dtype>(x);
  }
}

/// Neighbouring elements at once, up to 16 bytes by one instruction; the address is aligned to their size.
template <DType dtype, i32 width>
REGARD_DEVICE void store_elements(u8* to, const float (&x)[width]) {
  constexpr i32 bytes = bytes_of<dtype>, of_word = 4 / bytes, words = width / of_word;
  static_assert(words <= 4 || (words == 8 && bytes == 4));
  if constexpr (bytes == 1 || words == 0) {
#pragma unroll
    for (i32 i = 0; i < width; ++i) store_element<dtype>(to, i, x[i]);
  } else {
    u32 all[words];
#pragma unroll
    for (i32 i = 0; i < words; ++i) {
      if constexpr (bytes == 4)
        all[i] = bits_as<u32>(x[i]);
      else
        all[i] = pair<dtype>(x[2 * i], x[2 * i + 1]);
    }
    if constexpr (words == 8) reinterpret_cast<uint4*>(to)[1] = uint4{all[4], all[5], all[6], all[7]};
    if constexpr (words >= 4)
      *reinterpret_cast<uint4*>(to) = uint4{all[0], all[1], all[2], all[3]};
    else if constexpr (words == 2)
      *reinterpret_cast<uint2*>(to) = uint2{all[0], all[1]};
    else
      *reinterpret_cast<u32*>(to) = all[0];
  }
}

/// Both addresses are multiples of `bytes`, a power of two up to 16.
template <i32 bytes>
REGARD_DEVICE void copy_bytes(u8* to, const u8* from) {
  if constexpr (bytes == 16)
    *reinterpret_cast<uint4*>(to) = *reinterpret_cast<const uint4*>(from);
  else if constexpr (bytes == 8)
    *reinterpret_cast<uint2*>(to) = *reinterpret_cast<const uint2*>(from);
  else if constexpr (bytes == 4)
    *reinterpret_cast<u32*>(to) = *reinterpret_cast<const u32*>(from);
  else
    *reinterpret_cast<u16*>(to) = *reinterpret_cast<const u16*>(from);
}

}  // namespace regard
