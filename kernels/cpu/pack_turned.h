// V^T and K^T as A operands of bf16 pairs: the rows in memory lie along k. For the tile unit, whose A operand
// has its depth contiguous.
#pragma once

#include "kernels/cpu/pack.h"

namespace regard {

/// Numbers [column, column + lanes) of a row, 32 bits each.
REGARD_INLINE Words widened(const u8* row, i64 column) {
  return __builtin_convertvector(load<Halves>(row + column * 2), Words);
}
/// The same of a row that has `n`; those behind are 0.
REGARD_INLINE Words widened(const u8* row, i64 column, i64 n) {
  Words result{};
  for (i64 i = 0; i < smaller<i64>(lanes, n - column); ++i)
    result[i] = reinterpret_cast<const u16*>(row)[column + i];
  return result;
}

/// Number c of every row becomes row c; n of them rounded up to 16, of depth(capacity), as tiles_by_rows()
/// has them.
template <i64 n, i64 capacity>
void pack_turned(float* to, const u8* from, i64 stride, i64 rows) {
  static_assert(pairs && capacity % (2 * lanes) == 0);
  for (i64 pair = 0; pair < capacity / 2; pair += lanes) {
    for (i64 column = 0; column < round_up(n, 16); column += lanes) {
      Floats square[lanes];
      const u8* row = row_address(from, stride, 2 * pair);
      if (2 * (pair + lanes) <= rows && column + lanes <= n) {
        REGARD_UNROLL
        for (i64 i = 0; i < lanes; ++i, row = row_address(row, stride, 2)) {
          asm("" : "+r"(row));  // else the compiler spends its time on keeping every row's address
          square[i] =
              bits_as<Floats>(widened(row, column) | widened(row_address(row, stride, 1), column) << 16);
        }
      } else {
        // Small rather than fast: rows behind the last and columns behind n are 0.
        for (i64 i = 0; i < lanes; ++i) {
          Words pair_of_row{};
          for (i64 j = 0; j < 2; ++j)
            if (2 * (pair + i) + j < rows)
              pair_of_row |= widened(row_address(row, stride, 2 * i + j), column, n)
                             << static_cast<u32>(16 * j);
          square[i] = bits_as<Floats>(pair_of_row);
        }
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
