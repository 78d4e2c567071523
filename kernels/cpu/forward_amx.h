// The two products of the forward kernel by the tile unit. Both have the query rows as columns of their
// results, so that P^T, made of S^T in place, is the B operand of O^T = V^T P^T.
#pragma once

#include "kernels/cpu/amx_product.h"
#include "kernels/cpu/pack_turned.h"
#include "kernels/cpu/scores.h"
#include "kernels/cpu/values.h"

namespace regard {

/// S^T of the keys [begin, end) and the raw maximum of each row.
inline void compute_scores_amx(float* scores, const float* keys, const float* q, i64 begin, i64 end,
                               float* maximum) {
  constexpr i64 steps = depth(key::d);
  constexpr int vectors = 32 / lanes;
  const TileProduct product{keys, steps, q, tile, scores, tile, steps, false};
  for (i64 lane = 0; lane < tile; lane += 32) {
    Floats largest[vectors];
    REGARD_UNROLL
    for (int v = 0; v < vectors; ++v) largest[v] = broadcast(-infinity);
    for (i64 key = begin; key < end; key += key_step) {
      multiply_block<2, 2>(product, key, lane);
      for (i64 row = key; row < key + key_step; ++row) {
        REGARD_UNROLL
        for (int v = 0; v < vectors; ++v)
          largest[v] = max(largest[v], load<Floats>(scores + row * tile + lane + v * lanes));
      }
    }
    REGARD_UNROLL
    for (int v = 0; v < vectors; ++v) store(maximum + lane + v * lanes, largest[v]);
  }
}

/// O^T[column][row] = O^T * rescale + V^T P^T, where `values` is V^T, [width][depth(block_k)], and `output`
/// is O^T, [width][tile].
inline void add_values_amx(const ValueProduct& work) {
  if (work.started && work.rescale) {
    for (i64 column = 0; column < width; ++column) {
      float* const row = work.output + column * tile;
      REGARD_UNROLL
      for (i64 lane = 0; lane < tile; lane += lanes)
        store(row + lane, load<Floats>(row + lane) * load<Floats>(work.rescale + lane));
    }
  }
  multiply(
      {work.values, depth(key::block_k), work.weights, tile, work.output, tile, work.count, work.started},
      width, tile);
}

/// Rows [first, first + lanes) of O from O^T.
inline void turn_output(float* to, const float* output, i64 first) {
  for (i64 column = 0; column < width; column += lanes) {
    Floats square[lanes];
    REGARD_UNROLL
    for (int i = 0; i < lanes; ++i) square[i] = load<Floats>(output + (column + i) * tile + first);
    transpose(square);
    REGARD_UNROLL
    for (int i = 0; i < lanes; ++i) store(to + i * width + column, square[i]);
  }
}

}  // namespace regard
