// A square of lanes x lanes 32-bit elements, transposed in registers, and other exchanges of lanes.
#pragma once

#include "kernels/cpu/product.h"

namespace regard {

template <int... number>
struct Numbers {};
template <int count, int... number>
struct NumbersBelow : NumbersBelow<count - 1, count - 1, number...> {};
template <int... number>
struct NumbersBelow<0, number...> {
  using type = Numbers<number...>;
};

/// Swaps the off-diagonal squares of `size` in every square of 2 * size that the rows a and b cross.
template <int size, int... lane>
REGARD_INLINE void swap_squares(Floats& a, Floats& b, Numbers<lane...>) {
  const Floats upper = __builtin_shufflevector(a, b, (lane & size ? lanes + lane - size : lane)...);
  b = __builtin_shufflevector(a, b, (lane & size ? lanes + lane : lane + size)...);
  a = upper;
}

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

/// Turns the bits of (row, lane), row in front, by `places` to the right: the last bit of the lane becomes
/// the first of the row, the last of the row the first of the lane. All rounds are the same code, an
/// instruction for each result.
template <int places>
REGARD_INLINE void turn_places(Floats (&rows)[lanes]) {
  for (int round = 0; round < places; ++round) {
    Floats turned[lanes];
    REGARD_UNROLL
    for (int i = 0; i < lanes / 2; ++i) {
      turned[i] = every_second<false>(rows[2 * i], rows[2 * i + 1], NumbersBelow<lanes>::type());
      turned[i + lanes / 2] = every_second<true>(rows[2 * i], rows[2 * i + 1], NumbersBelow<lanes>::type());
    }
    REGARD_UNROLL
    for (int i = 0; i < lanes; ++i) rows[i] = turned[i];
  }
}

/// With AVX-512 by turning all bits of a lane number into those of the row: a quarter of what there would be
/// to compile.
REGARD_INLINE void transpose(Floats (&rows)[lanes]) {
  static_assert(!target::avx512 || lanes == 1 << 4);
  if constexpr (target::avx512)
    turn_places<4>(rows);
  else
    transpose_squares<lanes / 2>(rows);
}

typedef u16 Numbers16 __attribute__((vector_size(target::vector_bytes)));

/// Of every 128 bits the lower or upper half of `a` and `b`, number by number in turn: one instruction.
template <bool upper, int... n>
REGARD_INLINE Floats woven(Numbers16 a, Numbers16 b, Numbers<n...>) {
  return bits_as<Floats>(
      __builtin_shufflevector(a, b, (n / 8 * 8 + upper * 4 + n % 8 / 2 + n % 2 * 2 * lanes)...));
}

/// Vector i becomes number i of `lanes` rows in memory, 0 from number `count` on. `row(i)` is where row i
/// starts.
template <DType dtype, class Row>
REGARD_INLINE void load_transposed(Floats (&square)[lanes], i64 count, Row row) {
  if (count >= lanes) {
    REGARD_UNROLL
    for (int i = 0; i < lanes; ++i) square[i] = load_floats<dtype>(row(i));
  } else {
    for (int i = 0; i < lanes; ++i) square[i] = load_floats<dtype>(row(i), count);
  }
  transpose(square);
}

}  // namespace regard
