// Conversions between the dtypes in memory and fp32 lanes; fp32 is rounded to nearest even.
#pragma once

#include "kernels/cpu/vector.h"
#include "kernels/eight_bits.h"

namespace regard {

/// fp16 bits as fp32: shifted to fp32's position, then scaled by 2^112, which is exact for subnormals too.
template <class Word, class Float>
REGARD_INLINE constexpr Float float_of_half_bits(Word half) {
  const Word moved = (half & 0x7fffu) << 13;
  const Word sign = (half & 0x8000u) << 16;
  const Float scaled = bits_as<Float>(moved) * 0x1p112f;
  // Infinity and NaN had all exponent bits set, and must have them set again.
  const Word special = bits_as<Word>((half & 0x7c00u) == 0x7c00u ? Word{} + 0x7f800000u : Word{});
  return bits_as<Float>(bits_as<Word>(scaled) | special | sign);
}

/// fp32 as fp16 bits, to nearest even.
template <class Word, class Float>
REGARD_INLINE Word half_bits_of_float(Float value) {
  const Word all = bits_as<Word>(value);
  const Word sign = (all >> 16) & 0x8000u;
  const Word magnitude = all & 0x7fffffffu;
  // Below 2^-14 the sum with 0.5 leaves the subnormal's bits, rounded, at the bottom of the word.
  const Word subnormal = bits_as<Word>(bits_as<Float>(magnitude) + 0.5f) - 0x3f000000u;
  const Word normal = (magnitude + 0xc8000fffu + ((magnitude >> 13) & 1u)) >> 13;
  const Word special = magnitude > 0x7f800000u ? Word{} + 0x7e00u : Word{} + 0x7c00u;
  const Word finite = magnitude < 0x38800000u ? subnormal : normal;
  return sign | (magnitude >= 0x477ff000u ? special : finite);
}

/// fp32 as bf16 bits, to nearest even; NaN stays NaN.
template <class Word, class Float>
REGARD_INLINE Word bfloat_bits_of_float(Float value) {
  const Word all = bits_as<Word>(value);
  const Word rounded = (all + 0x7fffu + ((all >> 16) & 1u)) >> 16;
  return (all & 0x7fffffffu) > 0x7f800000u ? (all >> 16) | 0x40u : rounded;
}

REGARD_INLINE constexpr float float_of_int(i32 value) {
  return static_cast<float>(value);
}
REGARD_INLINE Floats float_of_int(Ints values) {
  return __builtin_convertvector(values, Floats);
}

/// 8-bit numbers. OCP's e5m2 is the upper half of an fp16; the other floats have no infinity.
template <DType dtype, class Int, class Word, class Float>
REGARD_INLINE constexpr Float float_of_eight_bits(Word bits) {
  if constexpr (dtype == DType::int8) {
    return float_of_int(bits_as<Int>(bits << 24) >> 24);
  } else if constexpr (dtype == DType::fp8_e5m2) {
    return float_of_half_bits<Word, Float>(bits << 8);
  } else {
    using Bits = EightBits<dtype>;
    const Word sign = bits & 0x80u, magnitude = bits & 0x7fu;
    // Normal numbers are shifted to fp32's position and subnormal ones counted, so no fp32 is subnormal: a
    // thread may take these as zero.
    constexpr float smallest = bits_as<float>(static_cast<u32>(127 + 1 - Bits::bias - Bits::mantissa) << 23);
    const Word normal = (magnitude << (23 - Bits::mantissa)) + (static_cast<u32>(127 - Bits::bias) << 23);
    const Word subnormal = bits_as<Word>(float_of_int(bits_as<Int>(magnitude)) * smallest);
    const Word number = magnitude < (1u << Bits::mantissa) ? subnormal : normal;
    const Word nothing = Word{} + 0x7fc00000u;
    return bits_as<Float>((Bits::fnuz ? bits : magnitude) == Bits::not_a_number ? nothing
                                                                                : number | sign << 24);
  }
}
template <DType dtype>
inline float float_of_eight_bits(u32 bits) {
  return float_of_eight_bits<dtype, i32, u32, float>(bits);
}

/// The lowest bytes of a vector register.
REGARD_INLINE float four_bytes(const void* from) {
  float bytes;
  __builtin_memcpy(&bytes, from, 4);
  return bytes;
}

/// `lanes` 8-bit numbers in memory, as words.
REGARD_INLINE Words load_eight_bits(const void* from) {
  typedef u8 Bytes __attribute__((vector_size(lanes), aligned(1), may_alias));
  if constexpr (target::avx2) {
    Words words;
    REGARD_X86_ASM("vpmovzxbd %1, %0" : "=v"(words) : "m"(*static_cast<const Bytes*>(from)));
    return words;
  } else if constexpr (target::neon) {
    Words words;
    REGARD_ARM_ASM("ushll %0.8h, %1.8b, #0\n\tushll %0.4s, %0.4h, #0" : "=w"(words) : "w"(four_bytes(from)));
    return words;
  } else {
    return __builtin_convertvector(*static_cast<const Bytes*>(from), Words);
  }
}

/// The same of a signed type, as numbers.
REGARD_INLINE Floats load_int8(const void* from) {
  typedef u8 Bytes __attribute__((vector_size(lanes), aligned(1), may_alias));
  if constexpr (target::avx2) {
    Ints values;
    REGARD_X86_ASM("vpmovsxbd %1, %0" : "=v"(values) : "m"(*static_cast<const Bytes*>(from)));
    return float_of_int(values);
  } else if constexpr (target::neon) {
    Ints values;
    REGARD_ARM_ASM("sshll %0.8h, %1.8b, #0\n\tsshll %0.4s, %0.4h, #0" : "=w"(values) : "w"(four_bytes(from)));
    return float_of_int(values);
  } else {
    return float_of_eight_bits<DType::int8, Ints, Words, Floats>(load_eight_bits(from));
  }
}

/// OCP's 8-bit floats through fp16, which one instruction converts: e5m2 is its upper half, and the
/// exponent of an e4m3 in fp16's position is 8 less.
template <DType dtype>
REGARD_INLINE Floats load_floats_by_half(const void* from) {
  typedef u8 Bytes __attribute__((vector_size(lanes), aligned(1), may_alias));
  Halves bits;
  if constexpr (target::neon)
    REGARD_ARM_ASM("ushll %0.8h, %1.8b, #0" : "=w"(bits) : "w"(four_bytes(from)));
  else
    REGARD_X86_ASM("vpmovzxbw %1, %0" : "=v"(bits) : "m"(*static_cast<const Bytes*>(from)));
  Halves half = bits << 8;
  if constexpr (dtype == DType::fp8) half = (half & 0x8000) | (bits << 7 & 0x3f80);
  Floats result;
  if constexpr (target::neon)
    REGARD_ARM_ASM("fcvtl %0.4s, %1.4h" : "=w"(result) : "w"(half));
  else
    REGARD_X86_ASM("vcvtph2ps %1, %0" : "=v"(result) : "v"(half));
  if constexpr (dtype == DType::fp8) {
    constexpr float would_be_nan = 480;
    result *= 0x1p8f;
    const Words magnitude = bits_as<Words>(result) & 0x7fffffffu;
    const Ints is_nan = magnitude == bits_as<u32>(would_be_nan);
    result = bits_as<Floats>(bits_as<Ints>(result) | (is_nan & 0x7fc00000));
  }
  return result;
}

/// One element.
template <DType dtype>
REGARD_INLINE float load_scalar(const void* data, i64 index) {
  if constexpr (dtype == DType::fp32) {
    return static_cast<const float*>(data)[index];
  } else if constexpr (dtype == DType::bf16) {
    return bits_as<float>(static_cast<u32>(static_cast<const u16*>(data)[index]) << 16);
  } else if constexpr (dtype == DType::fp16) {
    return float_of_half_bits<u32, float>(static_cast<const u16*>(data)[index]);
  } else {
    return float_of_eight_bits<dtype>(static_cast<const u8*>(data)[index]);
  }
}

template <DType dtype>
REGARD_INLINE void store_scalar(void* data, i64 index, float value) {
  static_assert(dtype == DType::fp32 || dtype == DType::bf16 || dtype == DType::fp16, "no fp8 outputs");
  if constexpr (dtype == DType::fp32) {
    static_cast<float*>(data)[index] = value;
  } else if constexpr (dtype == DType::bf16) {
    static_cast<u16*>(data)[index] = static_cast<u16>(bfloat_bits_of_float<u32>(value));
  } else {
    static_cast<u16*>(data)[index] = static_cast<u16>(half_bits_of_float<u32>(value));
  }
}

/// `lanes` consecutive elements.
template <DType dtype>
REGARD_INLINE Floats load_floats(const void* from) {
  if constexpr (dtype == DType::fp32) {
    return load<Floats>(from);
  } else if constexpr (dtype == DType::bf16) {
    return bits_as<Floats>(load_halves(from) << 16);
  } else if constexpr (dtype == DType::fp16) {
    if constexpr (target::f16c) {
      Floats result;
      if constexpr (target::neon)
        REGARD_ARM_ASM("fcvtl %0.4s, %1.4h" : "=w"(result) : "w"(load<Halves>(from)));
      else
        REGARD_X86_ASM("vcvtph2ps %1, %0" : "=v"(result) : "v"(load<Halves>(from)));
      return result;
    } else {
      return float_of_half_bits<Words, Floats>(load_halves(from));
    }
  } else if constexpr (dtype == DType::int8) {
    return load_int8(from);
  } else if constexpr (target::f16c && (dtype == DType::fp8 || dtype == DType::fp8_e5m2)) {
    return load_floats_by_half<dtype>(from);
  } else {
    return float_of_eight_bits<dtype, Ints, Words, Floats>(load_eight_bits(from));
  }
}

/// The 16-bit patterns of `lanes` numbers as bf16.
REGARD_INLINE Halves bfloats(Floats values) {
  if constexpr (target::bf16_convert && target::neon) {
    Halves result;
    REGARD_ARM_ASM("bfcvtn %0.4h, %1.4s" : "=w"(result) : "w"(values));
    return result;
  } else if constexpr (target::bf16_convert) {
    Halves result;
    REGARD_X86_ASM("vcvtneps2bf16 %1, %0" : "=v"(result) : "v"(values));
    return result;
  } else {
    return __builtin_convertvector(bfloat_bits_of_float<Words>(values), Halves);
  }
}

template <DType dtype>
REGARD_INLINE void store_floats(void* to, Floats values) {
  static_assert(dtype == DType::fp32 || dtype == DType::bf16 || dtype == DType::fp16, "no fp8 outputs");
  if constexpr (dtype == DType::fp32) {
    store(to, values);
  } else if constexpr (dtype == DType::bf16) {
    store(to, bfloats(values));
  } else if constexpr (target::f16c) {
    Halves halves;
    if constexpr (target::neon)
      REGARD_ARM_ASM("fcvtn %0.4h, %1.4s" : "=w"(halves) : "w"(values));
    else
      REGARD_X86_ASM("vcvtps2ph $0, %1, %0" : "=v"(halves) : "v"(values));
    store(to, halves);
  } else {
    store(to, __builtin_convertvector(half_bits_of_float<Words>(values), Halves));
  }
}

/// The first `count` elements, followed by zeros; nothing past them is read.
template <DType dtype>
REGARD_INLINE Floats load_floats(const void* from, i64 count) {
  Floats result{};
  for (i64 i = 0; i < count; ++i) result[i] = load_scalar<dtype>(from, i);
  return result;
}

template <DType dtype>
REGARD_INLINE void store_floats(void* to, Floats values, i64 count) {
  for (i64 i = 0; i < count; ++i) store_scalar<dtype>(to, i, values[i]);
}

}  // namespace regard
