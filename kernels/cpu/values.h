// O = O * rescale + P V: the second product of a forward kernel, shared by its kinds.
#pragma once

#include "kernels/cpu/forward_layout.h"
#include "kernels/cpu/product.h"

namespace regard {

/// Row length of V and O in scratch memory.
constexpr i64 width = ForwardLayout::padded(key::dv);

/// Operand elements [begin, end) of a product's depth.
struct DepthSpan {
  i64 begin, end;
};

/// What one call of add_values takes. `weights` is [depth][row], `values` [depth][width], `output`
/// [row][width].
struct ValueProduct {
  float* output;
  const float *weights, *values;
  i64 count;                         // operand elements of depth
  bool started;                      // output holds something
  const float* rescale;              // per row; null: 1
  const DepthSpan* spans = nullptr;  // per tile_rows rows: what they need of the depth; null: all
};

template <i64 rows, int tile_height, int vectors>
REGARD_INLINE void add_values_tile(const ValueProduct& work, i64 row, i64 column) {
  float* output = work.output + row * width + column;
  Tile<tile_height, vectors> product;
  if (work.started) {
    product.load_from(output, width);
    if (work.rescale) product.scale_rows(work.rescale + row);
  } else {
    product.clear();
  }
  const DepthSpan span = work.spans ? work.spans[row / tile_rows] : DepthSpan{0, work.count};
  product.add_product(work.weights + span.begin * rows + row, 1, rows,
                      work.values + span.begin * width + column, width, span.end - span.begin);
  product.store_to(output, width);
}

template <i64 rows, int vectors>
void add_values_columns(const ValueProduct& work, i64 column) {
  i64 row = 0;
  for (; row + tile_rows <= rows; row += tile_rows)
    add_values_tile<rows, tile_rows, vectors>(work, row, column);
  constexpr int rest = static_cast<int>(rows % tile_rows);
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
