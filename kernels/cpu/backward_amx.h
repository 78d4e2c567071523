// The products of the backward kernel on the tile unit.
#pragma once

#include "kernels/cpu/amx_product.h"
#include "kernels/cpu/attributes.h"
#include "kernels/cpu/backward_tile.h"
#include "kernels/cpu/pack_transposed.h"

namespace regard {

/// The queries that are masked out of a tile together fill two tiles of the unit, and so do the keys.
static_assert(!amx || (unit == 32 && key_step == 32 && units == 2));

/// function(first key, end, units of queries that see some of the keys): one call for all keys if it makes
/// no difference, else one for each key_step.
template <class Function>
void for_seen(const VisibleUnits& visible, i64 from, i64 to, Function function) {
  const bool all_equal = visible.all_equal();
  const i64 step = all_equal ? to - from : key_step;
  for (i64 k = from; k < to; k += step) {
    const Range seeing = all_equal ? Range{0, units} : visible.units_of(k);
    if (!seeing.empty()) function(k, k + step, seeing);
  }
}

/// P and dS of the keys [from, to) of the block.
REGARD_OPTIMIZE inline void compute_scores_amx(const BackwardTile& tile, i64 from, i64 to) {
  const auto multiply_rows_of = [&](i64 rows, i64 columns, i64 steps) {
    for_seen(tile.visible, from, to, [&](i64 first, i64 end, Range seeing) {
      const i64 query = seeing.begin * unit;
      multiply<pieces == 2>(
          {tile.part(rows) + first * steps, rows_apart(steps), tile.part(columns) + query * steps,
           tiles_by_columns(steps), tile.part(scratch_layout.scores) + first * block_q + query,
           rows_apart(block_q), steps, false, scratch_layout.low, scratch_layout.low},
          end - first, (seeing.end - seeing.begin) * unit);
    });
  };
  // If a unit of queries sees nothing, its products are skipped: nothing reads their results.
  float* const scores = tile.part(scratch_layout.scores);
  float* const weights = tile.part(scratch_layout.weights);
  float* const slopes = config::softcap ? tile.part(scratch_layout.slopes) : scores;
  constexpr int vectors = block_q / lanes;
  const auto make_weights = [&]<bool guarded>(i64 first) {
    for (i64 k = first; k < first + key_step; ++k) {
      const i64 offset = k * block_q;
      const auto value = [&](int v) { return load<Floats>(scores + offset + v * lanes); };
      tile.make_weights<vectors, guarded>(k, 0, value, weights + offset, slopes + offset);
    }
  };
  multiply_rows_of(scratch_layout.k_rows, scratch_layout.q_transposed, depth(d));
  for (i64 k = from; k < to; k += key_step) {
    if (tile.is_plain(0, units, k))
      make_weights.template operator()<false>(k);
    else
      make_weights.template operator()<true>(k);
  }
  multiply_rows_of(scratch_layout.v_rows, scratch_layout.grad_o_transposed, depth(dv));
  for (i64 k = from; k < to; k += 2) {
    const i64 offset = k * block_q;
    const auto value = [&](int j, int v) { return load<Floats>(scores + offset + j * block_q + v * lanes); };
    tile.make_gradients<vectors>(k, 0, value, weights + offset, slopes + offset, block_q);
  }
}

/// sums[key][columns] += operand[key][query] B[query][columns], over the queries that see the key.
inline void add_by_key_amx(const float* operand, const float* b, const VisibleUnits& visible, i64 from,
                           i64 to, float* sums, i64 columns) {
  constexpr i64 height = depth(block_q);
  for_seen(visible, from, to, [&](i64 first, i64 end, Range seeing) {
    const i64 query = depth(seeing.begin * unit);
    multiply({operand + first * height + query, rows_apart(height), b + query * 16, tiles_by_columns(height),
              sums + first * columns, rows_apart(columns), depth((seeing.end - seeing.begin) * unit), true,
              scratch_layout.low, scratch_layout.low},
             end - first, columns);
  });
}

/// The sum of dQ of a full block of queries, stored as dQ^T in contiguous tiles, to which products add in
/// place. A block that is not full has no room for them: its sum is stored in rows.
constexpr TileStrides grad_q_tiles = tiles_by_rows(block_q);

/// `lanes` rows of dQ from such tiles, in the memory of the scores, which are no longer needed.
inline const float* rows_of_grad_q(const BackwardTile& tile, const float* tiles, i64 first) {
  static_assert(!amx || lanes * columns_d <= block_k * block_q);
  float* const rows = tile.part(scratch_layout.scores);
  transpose_tiles<columns_d>(rows, tiles, grad_q_tiles, first);
  return rows;
}

/// dQ[query][d] += dS K, computed as dQ^T = K^T dS^T because dS^T is available as a B operand. The first
/// block of keys writes the sum, later ones add to it. `keys` is K^T, as pack_transposed_rows produces it.
inline void add_grad_q_amx(const BackwardTile& tile, float* sums, bool is_first, const float* keys) {
  constexpr i64 height = depth(block_k);
  const VisibleUnits& visible = tile.visible;
  const i64 queries = tile.position.queries;
  const bool full = tile.position.full();
  float* const tiles = full ? sums : tile.part(scratch_layout.grad_q);
  const auto product_of = [&](i64 u) {
    return AmxProduct{keys + depth(visible.keys[u].begin) * 16,
                      tiles_by_rows(height),
                      tile.grad_s_vnni(visible.keys[u].begin, u * unit),
                      tiles_by_columns(height),
                      tiles + grad_q_tiles.at(0, u * unit),
                      grad_q_tiles,
                      depth(visible.keys[u].count()),
                      full && !is_first,
                      scratch_layout.low,
                      scratch_layout.low};
  };
  if (visible.all_equal())
    multiply(product_of(0), columns_d, block_q);
  else
    for (i64 u = 0; u < units; ++u) multiply(product_of(u), columns_d, unit);
  if (full) return;
  for (i64 query = 0; query < queries; query += lanes) {
    const float* const rows = rows_of_grad_q(tile, tiles, query);
    float* const to = sums + query * columns_d;
    const i64 numbers = smaller<i64>(lanes, queries - query) * columns_d;
    for (i64 i = 0; i < numbers; i += lanes) {
      const Floats more = load<Floats>(rows + i);
      store(to + i, is_first ? more : load<Floats>(to + i) + more);
    }
  }
}

}  // namespace regard
