// V^T and K^T as A operands of bf16 pairs: the rows in memory lie along k. For the tile unit, whose A operand
// has its depth contiguous.
#pragma once

#include "kernels/cpu/pack.h"

namespace regard {

/// Numbers [column, column + lanes) of row `row` of `rows`, those behind n and of rows behind the last 0.
template <i64 n>
REGARD_INLINE Words widened_row(const u8* from, i64 stride, i64 row, i64 rows, i64 column) {
  if (row >= rows) return Words{};
  const u16* numbers = reinterpret_cast<const u16*>(row_address(from, stride, row)) + column;
  if (column + lanes <= n) return __builtin_convertvector(load<Halves>(numbers), Words);
  Words result{};
  for (i64 i = 0; i < n - column; ++i) result[i] = numbers[i];
  return result;
}

/// Number c of every row becomes row c; n of them rounded up to 16, of depth(capacity), as tiles_of() has
/// them.
template <i64 n, i64 capacity>
void pack_turned(float* to, const u8* from, i64 stride, i64 rows) {
  static_assert(pairs && capacity % (2 * lanes) == 0);
  for (i64 pair = 0; pair < capacity / 2; pair += lanes) {
    for (i64 column = 0; column < round_up(n, 16); column += lanes) {
      Floats square[lanes];
      REGARD_UNROLL
      for (i64 i = 0; i < lanes; ++i) {
        const i64 row = 2 * (pair + i);
        const Words low = widened_row<n>(from, stride, row, rows, column);
        const Words high = widened_row<n>(from, stride, row + 1, rows, column);
        square[i] = bits_as<Floats>(low | (high << 16));
      }
      transpose(square);
      REGARD_UNROLL
      for (i64 i = 0; i < lanes; ++i)
        store(to + (column + i) / 16 * 16 * depth(capacity) + pair / 16 * 256 + (column + i) % 16 * 16 +
                  pair % 16,
              square[i]);
    }
  }
}

}  // namespace regard
