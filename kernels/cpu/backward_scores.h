// P and dS of a block of keys x queries by vector instructions, one tile at a time: everything between the
// two products stays in registers or close to them.
#pragma once

#include "kernels/cpu/attributes.h"
#include "kernels/cpu/backward_tile.h"

namespace regard {

/// tile_rows keys x `vectors` vectors of queries, starting at (k, query).
template <int vectors, bool guarded>
class BackwardScoreTile {
 public:
  BackwardScoreTile(const BackwardTile& tile, i64 k, i64 query) : tile_(tile), k_(k), query_(query) {}

  REGARD_OPTIMIZE void make_weights() {
    const BackwardTile tile = tile_;  // a copy, which no store can change
    RegisterTile<tile_rows, vectors> product;
    product.clear();
    multiply<d>(product, scratch_layout.k_rows, scratch_layout.q_transposed);
    for_rows(Count<1>(), product, [&](int r, auto value) __attribute__((always_inline)) {
      tile.template make_weights<vectors, guarded>(
          k_ + r, query_, [&](int v) __attribute__((always_inline)) { return value(0, v); },
          weights_ + (BackwardTile::weights_are_p ? 0 : r * width),
          slopes_ + (config::softcap ? r * width : 0));
    });
  }

  REGARD_OPTIMIZE void make_gradients() {
    const BackwardTile tile = tile_;
    RegisterTile<tile_rows, vectors> product;
    REGARD_UNROLL
    for (int v = 0; v < vectors; ++v) {
      Floats start{};
      if constexpr (BackwardTile::starts_at_delta)
        start -= load<Floats>(tile.part(scratch_layout.delta) + query_ + v * lanes);
      REGARD_UNROLL
      for (int r = 0; r < tile_rows; ++r) product.sum[r][v] = start;
    }
    multiply<dv>(product, scratch_layout.v_rows, scratch_layout.grad_o_transposed);
    for_rows(Count<BackwardTile::gradient_keys>(), product,
             [&](int r, auto value) __attribute__((always_inline)) {
               tile.template make_gradients<vectors>(k_ + r, query_, value,
                                                     weights_ + (BackwardTile::weights_are_p ? 0 : r * width),
                                                     slopes_ + (config::softcap ? r * width : 0), width);
             });
  }

 private:
  static constexpr i64 width = vectors * lanes;
  static constexpr bool rolled = guarded || BackwardTile::much_code;

  template <i64 n>
  REGARD_INLINE void multiply(RegisterTile<tile_rows, vectors>& product, i64 rows, i64 columns) {
    const i64 first = query_ / panel * panel, lane = query_ % panel;  // the panel, and the index in it
    product.add_product(tile_.part(rows) + k_ * depth(n), depth(n), 1,
                        tile_.part(columns) + first * depth(n) + place(lane), panel, depth(n));
  }

  /// function(r, value) for every step-th row; value(j, v) is vector v of row r + j of the product.
  /// Unrolled, so that the product stays in registers. The guarded path is rarer or slower, and too much
  /// code to unroll.
  template <class Step, class Function>
  REGARD_INLINE void for_rows(Step step, RegisterTile<tile_rows, vectors>& product, Function function) {
    if constexpr (rolled) {
      product.store_to(sums_, width);
      for (int r = 0; r < tile_rows; r += step.value)
        function(r, [&](int j, int v) __attribute__((always_inline)) {
          return load<Floats>(sums_ + (r + j) * width + v * lanes);
        });
    } else {
      REGARD_UNROLL
      for (int r = 0; r < tile_rows; r += step.value)
        function(r, [&](int j, int v) __attribute__((always_inline)) { return product.sum[r + j][v]; });
    }
  }

  const BackwardTile& tile_;
  const i64 k_, query_;
  alignas(64) float weights_[BackwardTile::weights_are_p ? 1 : tile_rows * width];
  alignas(64) float sums_[rolled ? tile_rows * width : 1];
  alignas(64) float slopes_[config::softcap ? tile_rows * width : 1];
};

/// Both products of a tile at once, or one of them.
enum class Product { both, scores, gradients };

template <Product product, int vectors, bool guarded>
void compute_tile(const BackwardTile& tile, i64 k, i64 query) {
  BackwardScoreTile<vectors, guarded> scores(tile, k, query);
  if constexpr (product != Product::gradients) scores.make_weights();
  if constexpr (product != Product::scores) scores.make_gradients();
}

/// The keys [from, to) of the block, one panel of queries. Each step also prefetches `fetched` rows.
template <Product product>
void compute_panel(const BackwardTile& tile, i64 from, i64 to, i64 query, i64 fetched) {
  const i64 first = query / unit, end = first + panel / unit;
  for (i64 k = from; k < to; k += tile_rows) {
    if (!tile.prefetcher.empty()) tile.prefetcher.fetch(fetched);
    bool whole = true;
    for (i64 u = first; u < end; ++u) whole &= tile.visible.sees(u, k);
    if (whole && tile.is_plain(first, end, k)) {
      compute_tile<product, tile_vectors, false>(tile, k, query);
      continue;
    }
    for (i64 u = first; u < end; ++u) {
      if (tile.visible.sees(u, k))
        compute_tile<product, unit / lanes, true>(tile, k, u * unit);
      else
        tile.clear_unit(k, u * unit);
    }
  }
}

/// The keys [from, to) of the block.
inline void compute_scores(const BackwardTile& tile, i64 from, i64 to) {
  // A panel of Q and one of dO should fit in the L1 cache together; otherwise one product at a time.
  constexpr i64 near_floats = (32 << 10) / 4;
  constexpr bool split =
      BackwardTile::weights_are_p && !config::softcap && panel * (depth(d) + depth(dv)) > near_floats;
  // Spreads all prefetches evenly.
  const i64 steps = larger<i64>(1, (to - from) / tile_rows * (block_q / panel) * (split ? 2 : 1));
  const i64 fetched = ceil_divide(tile.prefetcher.rows(), steps);
  for (i64 query = 0; query < block_q; query += panel) {
    if constexpr (split) {
      compute_panel<Product::scores>(tile, from, to, query, fetched);
      compute_panel<Product::gradients>(tile, from, to, query, fetched);
    } else {
      compute_panel<Product::both>(tile, from, to, query, fetched);
    }
  }
}

}  // namespace regard
