// Matrix products of a wave: edge x edge fp32 sums += edge x 16 by 16 x edge 16-bit numbers. Only this file
// knows the instructions, and how they distribute rows and columns among lanes.
#pragma once

#include "kernels/hip/fragment.h"
#include "kernels/hip/number.h"
#include "kernels/portable/shared_operand.h"

namespace regard {

constexpr i32 depth = 16;  // of one product

/// The numbers of a lane in pairs: those of row or column lane % edge, and of the 16 along the sum half of
/// them, but all on chips that take them twice.
constexpr i32 operand_words = target::wmma_twice ? 8 : 4;
using Left = u32[operand_words];

typedef _Float16 Half4 __attribute__((vector_size(8)));
typedef _Float16 Half8 __attribute__((vector_size(16)));
typedef _Float16 Half16 __attribute__((vector_size(32)));
typedef short Short4 __attribute__((vector_size(8)));
typedef short Short8 __attribute__((vector_size(16)));
typedef short Short16 __attribute__((vector_size(32)));
typedef __bf16 Bf16x8 __attribute__((vector_size(16)));

template <i32 width>
struct SumsOf;
template <>
struct SumsOf<8> {
  typedef float Vector __attribute__((vector_size(32)));
};
template <>
struct SumsOf<16> {
  typedef float Vector __attribute__((vector_size(64)));
};

template <class Vector>
REGARD_DEVICE Vector vector_of(const u32* words) {
  Vector vector;
  __builtin_memcpy(&vector, words, sizeof vector);
  return vector;
}

/// The column of the right operand that a lane loads, such that a lane of the sums has those of Fragment.
REGARD_DEVICE i32 column_of_lane() {
  const i32 row = lane() % edge;
  if constexpr (edge == 32) return row;
  // The i-th sum of part p of the wave is in row 2 i + p of the instruction, or in row 8 p + i.
  const i32 i = target::wmma_twice ? row / 2 : row % 8, part = target::wmma_twice ? row % 2 : row / 8;
  return i / 4 * 8 + part * 4 + i % 4;
}

#define REGARD_MATRIX(instruction, Vector, words) \
  sums = __builtin_amdgcn_##instruction(vector_of<Vector>(right + words), vector_of<Vector>(left + words), sums
#define REGARD_MFMA(instruction, Vector, words) REGARD_MATRIX(mfma_f32_##instruction, Vector, words), 0, 0, 0)
#define REGARD_WMMA(instruction, Vector) REGARD_MATRIX(wmma_f32_##instruction, Vector, 0))

/// c += left right. The instruction computes its transpose, so that a lane has a row of c.
template <DType operand, i32 width = Fragment::width>
REGARD_DEVICE void multiply_add(Fragment& c, const Left& left, const Left& right) {
  constexpr bool bf16 = operand == DType::bf16;
  typename SumsOf<width>::Vector sums;  // of a type by which no branch is checked that other chips take
  __builtin_memcpy(&sums, c.x, sizeof sums);
  if constexpr (target::mfma_k16) {
    if constexpr (bf16)
      REGARD_MFMA(32x32x16_bf16, Bf16x8, 0);
    else
      REGARD_MFMA(32x32x16_f16, Half8, 0);
  } else if constexpr (edge == 32) {
    if constexpr (bf16) {
      REGARD_MFMA(32x32x8bf16_1k, Short4, 0);
      REGARD_MFMA(32x32x8bf16_1k, Short4, 2);
    } else {
      REGARD_MFMA(32x32x8f16, Half4, 0);
      REGARD_MFMA(32x32x8f16, Half4, 2);
    }
  } else if constexpr (target::wmma_twice) {
    if constexpr (bf16)
      REGARD_WMMA(16x16x16_bf16_w32, Short16);
    else
      REGARD_WMMA(16x16x16_f16_w32, Half16);
  } else {
    if constexpr (bf16)
      REGARD_WMMA(16x16x16_bf16_w32_gfx12, Short8);
    else
      REGARD_WMMA(16x16x16_f16_w32_gfx12, Half8);
  }
  __builtin_memcpy(c.x, &sums, sizeof sums);
}
#undef REGARD_WMMA
#undef REGARD_MFMA
#undef REGARD_MATRIX

/// Whether matrix instructions take numbers of the inputs as 0. e4m3's smallest ones are normal in fp16.
constexpr bool flushes_inputs =
    target::flushes_subnormals && operand == DType::fp16 && !EightBits<config::dtype>::e4m3;

/// Whether a lane has a subnormal number of fp16 in one of its operands.
REGARD_DEVICE bool has_subnormal(const Left* operands, i32 count) {
  typedef unsigned short Pair __attribute__((vector_size(4)));
  constexpr u32 smallest_normal = 0x400;
  // The bits without the sign, twice as large, less 1: 0 becomes more than any number.
  Pair least = {0xffff, 0xffff};
#pragma unroll
  for (i32 n = 0; n < count; ++n)
#pragma unroll
    for (i32 i = 0; i < operand_words; ++i) {
      const Pair bits = bits_as<Pair>(operands[n][i]) * 2 - 1;
      least = bits < least ? bits : least;
    }
  return (least[0] < least[1] ? least[0] : least[1]) < 2 * smallest_normal - 1;
}

/// Adds in fp32 what the right operand's subnormal numbers contribute, or, `of_left`, those of the left one
/// by the right one's other numbers. In little code, as it is rare: the words rotate through the first ones.
template <bool of_left, i32 width = Fragment::width>
REGARD_DEVICE void add_subnormals(Fragment& c, const Left& left, const Left& right) {
  const auto part = [](float x, bool subnormal) { return (fabsf(x) < 0x1p-14f) == subnormal ? x : 0.0f; };
  u32 lefts[operand_words], rights[operand_words];
#pragma unroll
  for (i32 i = 0; i < operand_words; ++i) lefts[i] = left[i], rights[i] = right[i];
  typename SumsOf<width>::Vector sums;
  __builtin_memcpy(&sums, c.x, sizeof sums);
#pragma unroll 1
  for (i32 word = 0; word < operand_words; ++word) {
#pragma unroll
    for (i32 half = 0; half < 2; ++half) {
      const float x = float_of_half(static_cast<u16>(lefts[0] >> 16 * half)),
                  y = float_of_half(static_cast<u16>(rights[0] >> 16 * half));
      sums =
          __builtin_amdgcn_mfma_f32_32x32x2f32(part(y, !of_left), of_left ? part(x, true) : x, sums, 0, 0, 0);
    }
#pragma unroll
    for (i32 i = 0; i + 1 < operand_words; ++i) lefts[i] = lefts[i + 1], rights[i] = rights[i + 1];
  }
  __builtin_memcpy(c.x, &sums, sizeof sums);
}

}  // namespace regard
