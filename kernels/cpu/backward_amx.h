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

/// P and dS of the keys [from, to) of the block.
inline void compute_scores_amx(const BackwardTile& tile, i64 from, i64 to) {
  const auto row_of = [&](i64 array, i64 k) { return tile.part(array) + k * block_q; };
  float* const scores = row_of(scratch_layout.scores, from);
  const auto for_panels = [&](i64 step, auto function) {
    for (i64 k = from; k < to; k += step)
      for (i64 query = 0; query < block_q; query += panel)
        function(k, query, row_of(scratch_layout.scores, k) + query,
                 row_of(scratch_layout.weights, k) + query,
                 key::softcap ? row_of(scratch_layout.slopes, k) + query : nullptr);
  };
  multiply_amx<block_q>({rows_of(tile.part(scratch_layout.k_rows) + from * depth(d), depth(d)),
                         tile.part(scratch_layout.q_transposed), panel, scores, block_q, depth(d), false},
                        depth(d), to - from);
  for_panels(1, [&](i64 k, i64 query, const float* score, float* weight, float* slope) {
    const auto value = [&](int v) { return load<Floats>(score + v * lanes); };
    const i64 step = k / key_step * key_step;
    if (tile.is_plain(query / unit, (query + panel) / unit, step))
      tile.make_weights<tile_vectors, false>(k, query, value, weight, slope);
    else
      tile.make_weights<tile_vectors, true>(k, query, value, weight, slope);
  });
  multiply_amx<block_q>(
      {rows_of(tile.part(scratch_layout.v_rows) + from * depth(dv), depth(dv)),
       tile.part(scratch_layout.grad_o_transposed), panel, scores, block_q, depth(dv), false},
      depth(dv), to - from);
  for_panels(2, [&](i64 k, i64 query, const float* score, const float* weight, const float* slope) {
    const auto value = [&](int j, int v) { return load<Floats>(score + j * block_q + v * lanes); };
    tile.make_gradients<tile_vectors>(k, query, value, weight, slope, block_q);
  });
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
