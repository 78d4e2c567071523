// The one matrix product of the generic kernels, fp32.
#pragma once

#include "kernels/cpu/attributes.h"
#include "kernels/cpu/vector.h"

namespace regard::generic {

constexpr int product_rows = 4;  // of the result, in registers; callers round their rows up to it

struct Operand {
  const float* data;
  i64 row, step;  // strides of the row of the result, and of the dimension that is summed over
};

template <int vectors>
REGARD_OPTIMIZE inline void add_panel(float* c, i64 c_row, Operand a, const float* b, i64 b_row, i64 rows,
                                      i64 depth) {
  for (i64 i = 0; i < rows; i += product_rows) {
    Floats sum[product_rows][vectors];
    REGARD_UNROLL
    for (int r = 0; r < product_rows; ++r) {
      REGARD_UNROLL
      for (int v = 0; v < vectors; ++v) sum[r][v] = Floats{};
    }
    for (i64 k = 0; k < depth; ++k) {
      Floats row[vectors];
      REGARD_UNROLL
      for (int v = 0; v < vectors; ++v) row[v] = load<Floats>(b + k * b_row + v * lanes);
      REGARD_UNROLL
      for (int r = 0; r < product_rows; ++r) {
        const Floats factor = broadcast(a.data[(i + r) * a.row + k * a.step]);
        REGARD_UNROLL
        for (int v = 0; v < vectors; ++v) sum[r][v] += factor * row[v];
      }
    }
    REGARD_UNROLL
    for (int r = 0; r < product_rows; ++r) {
      REGARD_UNROLL
      for (int v = 0; v < vectors; ++v) {
        float* const to = c + (i + r) * c_row + v * lanes;
        store(to, load<Floats>(to) + sum[r][v]);  // last, so that it is a separate sum (long_sum.h)
      }
    }
  }
}

/// c[i][j] += sum over k of a[i][k] * b[k][j]. `rows` is a multiple of product_rows, `columns` of 16.
inline void add_product(float* c, i64 c_row, Operand a, const float* b, i64 b_row, i64 rows, i64 columns,
                        i64 depth) {
  i64 column = 0;
  for (; column + 2 * lanes <= columns; column += 2 * lanes)
    add_panel<2>(c + column, c_row, a, b + column, b_row, rows, depth);
  for (; column < columns; column += lanes)
    add_panel<1>(c + column, c_row, a, b + column, b_row, rows, depth);
}

/// c = a b: add_product from zero.
inline void make_product(float* c, i64 c_row, Operand a, const float* b, i64 b_row, i64 rows, i64 columns,
                         i64 depth) {
  for (i64 i = 0; i < rows; ++i) __builtin_memset(c + i * c_row, 0, static_cast<u64>(columns) * 4);
  add_product(c, c_row, a, b, b_row, rows, columns, depth);
}

}  // namespace regard::generic
