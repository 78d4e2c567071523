// A square of lanes x lanes 32-bit elements, transposed in registers.
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

/// Lanes of a and b in turn: of their lower halves, of their upper halves.
template <int... lane>
REGARD_INLINE void interleave(Floats (&to)[2], Floats a, Floats b, Numbers<lane...>) {
  to[0] = __builtin_shufflevector(a, b, (lane / 2 + lane % 2 * lanes)...);
  to[1] = __builtin_shufflevector(a, b, (lanes / 2 + lane / 2 + lane % 2 * lanes)...);
}

/// With AVX-512 each round interleaves row i with row i + lanes / 2, an instruction for each result. That
/// turns the bits of (row, lane) by one place: after as many rounds as a lane number has bits, row and lane
/// have changed places. All rounds are the same code, a quarter of what there would be to compile.
REGARD_INLINE void transpose(Floats (&rows)[lanes]) {
  if constexpr (target::avx512) {
    for (int round = 1; round < lanes; round *= 2) {
      Floats turned[lanes / 2][2];
      REGARD_UNROLL
      for (int i = 0; i < lanes / 2; ++i)
        interleave(turned[i], rows[i], rows[i + lanes / 2], NumbersBelow<lanes>::type());
      REGARD_UNROLL
      for (int i = 0; i < lanes; ++i) rows[i] = turned[i / 2][i % 2];
    }
  } else {
    transpose_squares<lanes / 2>(rows);
  }
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
