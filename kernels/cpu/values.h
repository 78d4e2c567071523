// O = O * rescale + P V: the second product of the forward kernels.
#pragma once

#include "kernels/cpu/attributes.h"
#include "kernels/cpu/forward_layout.h"
#include "kernels/cpu/key_ranges.h"
#include "kernels/cpu/product.h"

namespace regard {

/// Row length of V and O in scratch memory.
constexpr i64 width = CpuForwardLayout::padded(config::dv);

/// The arguments of add_values. `p` is P^T, [depth][row], `values` [depth][width], `output` [row][width].
struct ValueProduct {
  float* output;
  const float *p, *values;
  bool started;          // output holds something
  const float* rescale;  // per row; null: 1
  const Range* spans;    // per tile_rows rows: the part of the depth that they need
};

/// Rows of a tile of sums. With four rows by one or two vectors, additions would wait for each other.
template <int vectors>
constexpr int value_rows = tile_rows == 4 && vectors <= 2 ? 2 * tile_rows : tile_rows;

template <i64 rows, int tile_height, int vectors>
REGARD_INLINE void add_values_tile(const ValueProduct& work, i64 row, i64 column) {
  float* output = work.output + row * width + column;
  RegisterTile<tile_height, vectors> product;
  product.clear();
  Range span = work.spans[row / tile_rows];
  for (i64 other = row + tile_rows; other < row + tile_height; other += tile_rows)
    span.join(work.spans[other / tile_rows]);
  product.add_product(work.p + span.begin * rows + place(row), 1, rows,
                      work.values + span.begin * width + place(column), width, span.count());
  if (work.started) {
    if (work.rescale)
      product.add_from(output, width, work.rescale + row);
    else
      product.add_from(output, width);
  }
  product.store_to(output, width);
}

template <i64 rows, int vectors>
REGARD_OPTIMIZE void add_values_columns(const ValueProduct& work, i64 column) {
  constexpr int height = value_rows<vectors>;
  i64 row = 0;
  for (; row + height <= rows; row += height) add_values_tile<rows, height, vectors>(work, row, column);
  constexpr int rest = static_cast<int>(rows % height);
  if constexpr (rest != 0) add_values_tile<rows, rest, vectors>(work, row, column);
}

template <i64 rows>
void add_values(const ValueProduct& work) {
  constexpr i64 step = tile_vectors * lanes;
  i64 column = 0;
  for (; column + step <= width; column += step) add_values_columns<rows, tile_vectors>(work, column);
  constexpr int rest = static_cast<int>(width % step / lanes);
  if constexpr (rest != 0) add_values_columns<rows, rest>(work, column);
}

}  // namespace regard
