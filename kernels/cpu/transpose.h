// A square of lanes x lanes 32-bit elements transposed in registers, and other lane permutations.
#pragma once

#include "kernels/cpu/attributes.h"
#include "kernels/cpu/product.h"

namespace regard {

template <int size>
REGARD_INLINE void transpose_squares(Floats (&rows)[lanes]) {
  REGARD_UNROLL
  for (int row = 0; row < lanes; ++row)
    if ((row & size) == 0) swap_squares<size>(rows[row], rows[row + size], NumbersBelow<lanes>::type());
  if constexpr (size > 1) transpose_squares<size / 2>(rows);
}

/// The even lanes of a and b, or the odd ones.
template <bool odd, int... lane>
REGARD_INLINE Floats every_second(Floats a, Floats b, Numbers<lane...>) {
  return __builtin_shufflevector(a, b, (2 * lane + odd)...);
}

/// Rotates the bits of (row, lane), with the row in the high bits, right by `places`: the last bit of the
/// lane becomes the first of the row, and the last bit of the row the first of the lane. All rounds have the
/// same code, one instruction per result.
template <int places>
REGARD_INLINE void rotate_index_bits(Floats (&rows)[lanes]) {
  for (int round = 0; round < places; ++round) {
    Floats rotated[lanes];
    REGARD_UNROLL
    for (int i = 0; i < lanes / 2; ++i) {
      rotated[i] = every_second<false>(rows[2 * i], rows[2 * i + 1], NumbersBelow<lanes>::type());
      rotated[i + lanes / 2] = every_second<true>(rows[2 * i], rows[2 * i + 1], NumbersBelow<lanes>::type());
    }
    REGARD_UNROLL
    for (int i = 0; i < lanes; ++i) rows[i] = rotated[i];
  }
}

/// Transposes a square. With AVX-512 it rotates all bits of the lane into those of the row, which is a
/// quarter of the code to compile.
REGARD_INLINE void transpose(Floats (&rows)[lanes]) {
  static_assert(!target::avx512 || lanes == 1 << 4);
  if constexpr (target::avx512)
    rotate_index_bits<4>(rows);
  else
    transpose_squares<lanes / 2>(rows);
}

/// Interleaves the lower or the upper halves of every 128 bits of `a` and `b`, number by number: one
/// instruction.
template <bool upper, int... n>
REGARD_INLINE Floats interleaved(Numbers16 a, Numbers16 b, Numbers<n...>) {
  return bits_as<Floats>(
      __builtin_shufflevector(a, b, (n / 8 * 8 + upper * 4 + n % 8 / 2 + n % 2 * 2 * lanes)...));
}

/// The numbers [begin, end) of `lanes` rows in memory, each of `count`, as to[number][lane]; rows of `to`
/// are `apart` numbers apart, and there are `capacity` of them. Other numbers in the same squares are
/// written too, with 0 past the last number.
template <DType dtype, i64 capacity, i64 apart>
REGARD_OPTIMIZE inline void load_transposed(float* to, i64 begin, i64 end, i64 count,
                                            const u8* const (&rows)[lanes]) {
  for (i64 first = begin / lanes * lanes; first < end; first += lanes) {
    Floats square[lanes];
    if constexpr (dtype == DType::bf16) {
      if (first + 2 * lanes <=
          smaller(count, capacity)) {  // words of two numbers: half the lane permutations
        REGARD_UNROLL
        for (int i = 0; i < lanes; ++i) square[i] = load<Floats>(rows[i] + first * 2);
        transpose(square);
        REGARD_UNROLL
        for (int i = 0; i < lanes; ++i) {
          const Words both = bits_as<Words>(square[i]);
          store(to + (first + 2 * i) * apart, both << 16);
          store(to + (first + 2 * i + 1) * apart, both & 0xffff0000u);
        }
        first += lanes;
        continue;
      }
    }
    const i64 bytes = first * bytes_of<dtype>;
    if (count - first >= lanes) {
      REGARD_UNROLL
      for (int i = 0; i < lanes; ++i) square[i] = load_floats<dtype>(rows[i] + bytes);
    } else {
      for (int i = 0; i < lanes; ++i) square[i] = load_floats<dtype>(rows[i] + bytes, count - first);
    }
    transpose(square);
    static_assert(capacity % lanes == 0);
    REGARD_UNROLL
    for (i64 i = 0; i < lanes; ++i) store(to + (first + i) * apart, square[i]);
  }
}

}  // namespace regard
