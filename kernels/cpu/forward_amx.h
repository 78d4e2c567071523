// The two products of the forward kernel on the tile unit. Both have the query rows as columns of their
// results, so that P^T, made from S^T, is the B operand of O^T = V^T P^T.
#pragma once

#include "kernels/cpu/amx_product.h"
#include "kernels/cpu/attributes.h"
#include "kernels/cpu/forward_pack.h"
#include "kernels/cpu/scores.h"
#include "kernels/cpu/step_key_ranges.h"
#include "kernels/cpu/values.h"

namespace regard {

/// Keys whose scores, for one tile of rows, fit in the L1 cache.
constexpr i64 chunk = 64;

/// S^T of the keys that each group of rows sees; rows of K are `key_row` elements apart.
inline void compute_scores_amx(float* scores, const float* keys, i64 key_row, const float* q,
                               const StepKeyRanges& ranges) {
  constexpr i64 steps = depth(config::d);
  const AmxProduct product{keys,     rows_apart(key_row), q,     tiles_by_columns(steps),
                           scores,   rows_apart(tile),    steps, false,
                           low_keys, low_queries};
  for (i64 group = 0; group < row_groups; ++group) {
    const Range keys = ranges.keys_of_group(group);
    for (i64 key = keys.begin; key < keys.end; key += key_step)
      multiply_block<2, 2, true>(product, key, group * group_rows);
  }
}

/// The maximum score of each row among the keys [begin, end). Computed only now, because reading what the
/// unit has just stored is slow.
REGARD_OPTIMIZE inline void find_maximum(const float* scores, i64 begin, i64 end, float* maximum) {
  Floats largest[tile / lanes];
  REGARD_UNROLL
  for (int v = 0; v < tile / lanes; ++v) largest[v] = broadcast(-infinity);
  for (i64 key = begin; key < end; ++key) {
    REGARD_UNROLL
    for (int v = 0; v < tile / lanes; ++v)
      largest[v] = max(largest[v], load<Floats>(scores + key * tile + v * lanes));
  }
  REGARD_UNROLL
  for (int v = 0; v < tile / lanes; ++v) store(maximum + v * lanes, largest[v]);
}

/// O^T, [width][tile], is stored in tiles by rows.
constexpr TileStrides output_tiles = tiles_by_rows(tile);

/// O^T *= rescale
inline void rescale_output(float* output, const float* rescale) {
  for (i64 lane = 0; lane < tile; lane += lanes) {
    const Floats factor = load<Floats>(rescale + lane);
    for (i64 column = 0; column < width; column += lanes) {
      float* const square = output + output_tiles.at(column, lane);
      for (int i = 0; i < lanes; ++i) store(square + i * lanes, load<Floats>(square + i * lanes) * factor);
    }
  }
}

/// O^T (+)= V^T P^T of the `count` rows from `row` on, over some keys of a step; `values` is V^T as
/// pack_transposed_rows produces it, and `p` is P^T as softmax produces it.
inline void add_values_amx(float* output, const float* values, const float* p, i64 row, i64 count, Range keys,
                           bool add) {
  constexpr i64 steps = depth(config::block_k);
  constexpr TileStrides p_tiles = tiles_by_columns(steps);
  const i64 first = depth(keys.begin) * 16;
  multiply_by_columns<width>({values + first, tiles_by_rows(steps), p + p_tiles.at(0, row) + first, p_tiles,
                              output + output_tiles.at(0, row), output_tiles,
                              depth(keys.end) - depth(keys.begin), add, low_values, low_p},
                             count);
}

}  // namespace regard
