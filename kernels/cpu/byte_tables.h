// 8-bit numbers as bf16, by look-ups in tables of bytes: those of the upper and those of the lower
// halves. A conversion by way of fp32 takes twice as many instructions.
#pragma once

#include "kernels/cpu/convert.h"

namespace regard {

typedef u8 Bytes __attribute__((vector_size(target::vector_bytes)));
typedef u64 ByteMask;

/// By the lower seven bits of a number, or of its magnitude. All numbers but 0 are looked up, so the first
/// entry is that of 0x80, which has the same lower bits: -128 as int8, NaN in the types without -0.
template <DType dtype>
struct ByteTable {
  alignas(64) u8 low[128], high[128];
  constexpr ByteTable() : low(), high() {
    for (u32 i = 0; i < 128; ++i) {
      const float number = dtype == DType::int8
                               ? (i == 0 ? 128.0f : static_cast<float>(i))
                               : float_of_eight_bits<dtype, i32, u32, float>(i == 0 ? 128 : i);
      const u32 bits = bits_as<u32>(number) & 0x7fffffffu;
      low[i] = static_cast<u8>(bits >> 16);
      high[i] = static_cast<u8>(bits >> 24);
    }
  }
};
template <DType dtype>
inline constexpr ByteTable<dtype> byte_table{};

/// The first n bytes, the others 0: only those are read.
template <i64 n, class Vector = Bytes>
REGARD_INLINE Vector load_bytes(const u8* from) {
  if constexpr (n >= 64) {
    return load<Vector>(from);
  } else {
    typedef u8 Unaligned __attribute__((vector_size(sizeof(Vector)), aligned(1), may_alias));
    Vector bytes;
    const ByteMask first = (ByteMask{1} << n) - 1;
    REGARD_X86_ASM(
        "vmovdqu8 %1, %0%{%2%}%{z%}" : "=v"(bytes) : "m"(*reinterpret_cast<const Unaligned*>(from)),
        "Yk"(first));
    return bytes;
  }
}

template <class Vector>
REGARD_INLINE Vector look_up(Vector numbers, ByteMask nonzero, const u8* table) {
  const Vector first = load<Vector>(table), second = load<Vector>(table + 64);
  REGARD_X86_ASM("vpermi2b %3, %2, %0%{%1%}%{z%}" : "+v"(numbers) : "Yk"(nonzero), "v"(first), "v"(second));
  return numbers;
}

/// The lower (upper) halves of the 16 bytes of a and b in turn, in each 128 bits.
template <bool upper, int... byte>
REGARD_INLINE Bytes in_turn(Bytes a, Bytes b, Numbers<byte...>) {
  return __builtin_shufflevector(a, b, (byte / 16 * 16 + upper * 8 + byte % 16 / 2 + byte % 2 * 64)...);
}
template <bool upper>
REGARD_INLINE Bytes in_turn(Bytes a, Bytes b) {
  return in_turn<upper>(a, b, NumbersBelow<64>::type());
}

/// In each 128 bits, to[0] has the first 8 numbers, and to[1] the others.
template <DType dtype, class Vector>
REGARD_INLINE void bfloats_of_bytes(Floats* to, Vector bytes) {
  ByteMask nonzero;
  REGARD_X86_ASM("vptestmb %1, %1, %0" : "=Yk"(nonzero) : "v"(bytes));
  Vector magnitude = bytes;
  if constexpr (dtype == DType::int8) REGARD_X86_ASM("vpabsb %1, %0" : "=v"(magnitude) : "v"(bytes));
  const Vector low = look_up(magnitude, nonzero, byte_table<dtype>.low);
  const Vector high = look_up(magnitude, nonzero, byte_table<dtype>.high) | (bytes & 0x80);
  to[0] = bits_as<Floats>(in_turn<false>(low, high));
  to[1] = bits_as<Floats>(in_turn<true>(low, high));
}

}  // namespace regard
