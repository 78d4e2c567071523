// Matrix products of a wave: edge x edge fp32 sums += edge x 16 by 16 x edge 16-bit numbers. Only this file
// knows the instructions, and how they distribute rows and columns among lanes.
#pragma once

#include "kernels/hip/fragment.h"

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

}  // namespace regard
