// The products of the backward kernel by the tile unit.
#pragma once

#include "kernels/cpu/amx_product.h"
#include "kernels/cpu/backward_tile.h"
#include "kernels/cpu/pack_turned.h"

namespace regard {

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
  const auto multiply_rows_of = [&](i64 rows, i64 columns, i64 steps) {
    multiply({tile.part(rows) + from * steps, rows_apart(steps), tile.part(columns), tiles_by_columns(steps),
              scores, rows_apart(block_q), steps, false},
             to - from, block_q);
  };
  multiply_rows_of(scratch_layout.k_rows, scratch_layout.q_transposed, depth(d));
  for_panels(1, [&](i64 k, i64 query, const float* score, float* weight, float* slope) {
    const auto value = [&](int v) { return load<Floats>(score + v * lanes); };
    const i64 step = k / key_step * key_step;
    if (tile.is_plain(query / unit, (query + panel) / unit, step))
      tile.make_weights<tile_vectors, false>(k, query, value, weight, slope);
    else
      tile.make_weights<tile_vectors, true>(k, query, value, weight, slope);
  });
  multiply_rows_of(scratch_layout.v_rows, scratch_layout.grad_o_transposed, depth(dv));
  for_panels(2, [&](i64 k, i64 query, const float* score, const float* weight, const float* slope) {
    const auto value = [&](int j, int v) { return load<Floats>(score + j * block_q + v * lanes); };
    tile.make_gradients<tile_vectors>(k, query, value, weight, slope, block_q);
  });
}

/// dQ[query][d] += dS K by way of dQ^T = K^T dS^T, as dS^T is there as a B operand. `keys` is K^T,
/// as pack_turned leaves it.
inline void add_grad_q_amx(float* grad_q, const float* keys, const float* grads, i64 steps, i64 queries,
                           float* turned) {
  constexpr i64 height = depth(block_k);
  multiply({keys, tiles_by_rows(height), grads, tiles_by_columns(height), turned, rows_apart(block_q), steps,
            false},
           columns_d, block_q);
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
