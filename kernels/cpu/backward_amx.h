// The products of the backward kernel by the tile unit.
#pragma once

#include "kernels/cpu/amx_product.h"
#include "kernels/cpu/backward_tile.h"
#include "kernels/cpu/pack_turned.h"

namespace regard {

/// Queries that are in or out of a tile together are two tiles of the unit, as are the keys.
static_assert(!amx || (unit == 32 && key_step == 32 && units == 2));

/// P and dS of the keys [from, to) of the block.
inline void compute_scores_amx(const BackwardTile& tile, i64 from, i64 to) {
  const auto multiply_rows_of = [&](i64 rows, i64 columns, i64 steps) {
    const TileProduct product{tile.part(rows),
                              rows_apart(steps),
                              tile.part(columns),
                              tiles_by_columns(steps),
                              tile.part(scratch_layout.scores),
                              rows_apart(block_q),
                              steps,
                              false,
                              scratch_layout.low,
                              scratch_layout.low};
    for (i64 k = from; k < to; k += key_step)
      for (i64 u = 0; u < units; ++u)
        if (tile.visible.sees(u, k)) multiply_block<2, 2, true>(product, k, u * unit);
  };
  // function(key, first query, number of vectors of queries), key_step keys at a time.
  const auto for_seen = [&](auto function) {
    for (i64 k = from; k < to; k += key_step) {
      const Range seeing = tile.visible.units_of(k);
      if (seeing.end - seeing.begin == units)
        function(k, 0, Count<block_q / lanes>{});
      else if (!seeing.empty())
        function(k, seeing.begin * unit, Count<unit / lanes>{});
    }
  };
  float* const scores = tile.part(scratch_layout.scores);
  float* const weights = tile.part(scratch_layout.weights);
  float* const slopes = key::softcap ? tile.part(scratch_layout.slopes) : scores;
  multiply_rows_of(scratch_layout.k_rows, scratch_layout.q_transposed, depth(d));
  for_seen([&](i64 first, i64 query, auto vectors) {
    constexpr int count = vectors.value;
    const auto make = [&]<bool careful>() {
      for (i64 k = first; k < first + key_step; ++k) {
        const i64 place = k * block_q + query;
        const auto value = [&](int v) { return load<Floats>(scores + place + v * lanes); };
        tile.make_weights<count, careful>(k, query, value, weights + place, slopes + place);
      }
    };
    if (tile.is_plain(query / unit, query / unit + count * lanes / unit, first))
      make.template operator()<false>();
    else
      make.template operator()<true>();
  });
  multiply_rows_of(scratch_layout.v_rows, scratch_layout.grad_o_transposed, depth(dv));
  for_seen([&](i64 first, i64 query, auto vectors) {
    for (i64 k = first; k < first + key_step; k += 2) {
      const i64 place = k * block_q + query;
      const auto value = [&](int j, int v) { return load<Floats>(scores + place + j * block_q + v * lanes); };
      tile.make_gradients<vectors.value>(k, query, value, weights + place, slopes + place, block_q);
    }
  });
}

/// sums[key][columns] += operand[key][query] B[query][columns], over the queries that see the key.
template <i64 columns>
void add_by_key_amx(const float* operand, const float* b, const VisibleUnits& visible, i64 from, i64 to,
                    float* sums) {
  constexpr i64 height = depth(block_q);
  for (i64 k = from; k < to; k += key_step) {
    const Range seeing = visible.units_of(k);
    const i64 first = depth(seeing.begin * unit);
    const auto add = [&](i64 steps) __attribute__((always_inline)) {
      multiply_rows<2>(
          {operand + k * height + first, rows_apart(height), b + first * 16, tiles_by_columns(height),
           sums + k * columns, rows_apart(columns), steps, true, scratch_layout.low, scratch_layout.low},
          0, columns);
    };
    // Steps that the compiler knows.
    if (seeing.end - seeing.begin == units)
      add(height);
    else if (!seeing.empty())
      add(depth(unit));
  }
}

/// dQ[query][d] += dS K by way of dQ^T = K^T dS^T, as dS^T is there as a B operand. `keys` is K^T,
/// as pack_turned leaves it.
inline void add_grad_q_amx(const BackwardTile& tile, float* grad_q, const float* keys, float* turned) {
  constexpr i64 height = depth(block_k);
  const VisibleUnits& visible = tile.visible;
  const auto product_of = [&](i64 u) {
    return TileProduct{keys + depth(visible.from[u]) * 16,
                       tiles_by_rows(height),
                       tile.grad_s_pairs(visible.from[u], u * unit),
                       tiles_by_columns(height),
                       turned + u * unit,
                       rows_apart(block_q),
                       depth(visible.to[u] - visible.from[u]),
                       false,
                       scratch_layout.low,
                       scratch_layout.low};
  };
  if (visible.alike())
    multiply(product_of(0), columns_d, block_q);
  else
    for (i64 u = 0; u < units; ++u) multiply_by_columns<columns_d, 32>(product_of(u));
  const i64 queries = tile.place.queries;
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
