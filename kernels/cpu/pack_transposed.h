// V^T and K^T as A operands of bf16 pairs, with the rows in memory along k. For the tile unit, whose A
// operand has a contiguous depth.
#pragma once

#include "kernels/cpu/attributes.h"
#include "kernels/cpu/pack.h"

namespace regard {

/// 16 numbers followed by 16 others. As 64-bit elements, which g++ combines with one instruction.
template <int... n>
REGARD_INLINE Numbers16 joined(const u8* a, const u8* b, Numbers<n...>) {
  typedef u64 Half __attribute__((vector_size(target::vector_bytes / 2)));
  return bits_as<Numbers16>(__builtin_shufflevector(load<Half>(a), load<Half>(b), n...));
}

/// 16 numbers of each of 32 rows, `stride` bytes apart, as a transposed square of pairs: number c becomes row
/// c.
REGARD_OPTIMIZE inline void transpose_vnni(float* to, const u8* row, i64 stride) {
  Floats square[lanes];
  REGARD_UNROLL
  for (i64 i = 0; i < lanes / 2; ++i, row += 4 * stride) {
    asm("" : "+r"(row));  // else the compiler spends its time keeping every row's address
    const Numbers16 even = joined(row, row + 2 * stride, NumbersBelow<lanes / 2>::type());
    const Numbers16 odd = joined(row + stride, row + 3 * stride, NumbersBelow<lanes / 2>::type());
    square[i] = interleaved<false>(even, odd, NumbersBelow<2 * lanes>::type());
    square[lanes / 2 + i] = interleaved<true>(even, odd, NumbersBelow<2 * lanes>::type());
  }
  // Which pair of rows, which column: bits 3210 of a vector's number are now column 2, pair 321; those of a
  // lane's number are pair 0, column 310. After rotating by three: columns 3102 and pairs 3210.
  rotate_index_bits<3>(square);
  REGARD_UNROLL
  for (i64 i = 0; i < lanes; ++i) store(to + (i / 8 * 8 + i % 2 * 4 + i % 8 / 2) * lanes, square[i]);
}

/// Rows that are transposed together.
constexpr i64 transposed_rows = 2 * lanes;

/// Number c of every row becomes row c; n of them, rounded up to 16. Rows past the last are 0. A square of
/// the result and the one below it are `below` elements apart.
template <i64 n>
void transpose_rows(float* to, i64 below, const u8* from, i64 row_bytes, i64 rows) {
  constexpr i64 side = lanes;
  for (i64 column = 0; column < n; column += side, to += below, from += side * 2) {
    const bool whole = rows >= transposed_rows && column + side <= n;
    u16 edge[transposed_rows][side];
    if (!whole) {
      __builtin_memset(edge, 0, sizeof edge);
      for (i64 i = 0; i < smaller(transposed_rows, rows); ++i)
        __builtin_memcpy(edge[i], from + i * row_bytes, smaller(side, n - column) * 2);
    }
    transpose_vnni(to, whole ? from : reinterpret_cast<const u8*>(edge), whole ? row_bytes : sizeof edge[0]);
  }
}

/// All rows, of depth(capacity) together, in the order of tiles_by_rows().
template <i64 n, i64 capacity>
void pack_transposed_rows(float* to, const u8* from, i64 stride, i64 rows) {
  static_assert(vnni && capacity % transposed_rows == 0);
  for (i64 first = 0; first < capacity; first += transposed_rows)
    transpose_rows<n>(to + first / 2 * lanes, lanes * depth(capacity), row_address(from, stride, first),
                      stride * 2, rows - first);
}

}  // namespace regard
