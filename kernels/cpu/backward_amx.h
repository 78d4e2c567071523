// The products of the backward kernel by the tile unit.
#pragma once

#include "kernels/cpu/amx_product.h"
#include "kernels/cpu/backward_tile.h"
#include "kernels/cpu/pack_turned.h"

namespace regard {

/// C[rows][columns] of a B that lies in panels, each laid out for a depth of `height`.
template <i64 columns>
void multiply_amx(TileProduct product, i64 height, i64 rows) {
  for (i64 column = 0; column < columns; column += panel) {
    multiply(product, rows, smaller(panel, columns - column));
    product.b += panel * height;
    product.c += panel;
  }
}

/// dQ[query][d] += dS K by way of dQ^T = K^T dS^T, as dS^T is there as a B operand. `keys` is K^T,
/// as pack_turned leaves it.
inline void add_grad_q_amx(float* grad_q, const float* keys, const float* grads, i64 steps, i64 queries,
                           float* turned) {
  multiply({tiles_of(keys, depth(block_k)), grads, block_q, turned, block_q, steps, false}, columns_d,
           block_q);
  for (i64 query = 0; query < queries; query += lanes) {
    const i64 count = smaller<i64>(lanes, queries - query);
    for (i64 column = 0; column < columns_d; column += lanes) {
      Floats square[lanes];
      REGARD_UNROLL
      for (int i = 0; i < lanes; ++i) square[i] = load<Floats>(turned + (column + i) * block_q + query);
      transpose(square);
      for (int i = 0; i < count; ++i) {
        float* const place = grad_q + (query + i) * columns_d + column;
        store(place, load<Floats>(place) + square[i]);
      }
    }
  }
}

}  // namespace regard
