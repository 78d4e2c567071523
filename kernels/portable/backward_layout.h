// How backward.cu divides its products among waves, and its block's shared memory into parts. The plan
// requests the memory with the same constants.
#pragma once

#include "kernels/portable/forward_layout.h"

namespace regard::portable {

/// How the waves of a block share a product of `rows` by `columns`: `down` of them have different rows, and
/// `across` different columns; each has whole matrix products of `unit` by `unit`. The division with the
/// fewest reads is chosen.
struct Waves {
  i64 down = 0, across = 0;

  constexpr REGARD_INLINE Waves(i64 warps, i64 rows, i64 columns, i64 unit) {
    i64 least = 0;
    for (i64 wide = 1; wide <= warps; wide *= 2) {
      const i64 high = warps / wide;
      if (high * wide != warps || rows % (unit * high) != 0 || columns % (unit * wide) != 0) continue;
      const i64 read = rows / high + columns / wide;
      if (down != 0 && read >= least) continue;
      least = read;
      down = high;
      across = wide;
    }
  }
};

/// Sizes in bytes; rows have the layout of forward's. If Q, K, V and dO do not fit at full width, a block
/// has block_d columns of dQ and dK and block_dv of dV: one of `parts`.
struct BackwardLayout {
  i64 block_d, block_dv, parts;
  i64 row_of_q, row_of_v, row_of_p;  // of Q and K, of V and dO, of P and dS
  i64 q, keys, grad_o, values, p;    // of one tile
  i64 statistics;                    // one number per row
  i64 visible, common;
  i64 stages;

  constexpr REGARD_INLINE explicit BackwardLayout(const TileShape& tile)
      : block_d(ForwardLayout::step(tile.block_d, tile.d, unit(tile))),
        block_dv(ForwardLayout::step(tile.block_dv, tile.dv, unit(tile))),
        parts(larger_of((tile.d + block_d - 1) / block_d, (tile.dv + block_dv - 1) / block_dv)),
        row_of_q(ForwardLayout::row(block_d, tile.bytes)),
        row_of_v(ForwardLayout::row(block_dv, tile.bytes)),
        row_of_p(ForwardLayout::row(tile.block_k, tile.bytes)),
        q(tile.block_q * row_of_q),
        keys(tile.block_k * row_of_q),
        grad_o(tile.block_q * row_of_v),
        values(tile.block_k * row_of_v),
        p(tile.block_q * row_of_p),
        statistics(tile.block_q * 4),
        visible(tile.block_q * 16),
        common(224),
        stages(tile.stages > 1 ? 2 : 1) {}

  /// Columns of which each wave has some in every product.
  static constexpr REGARD_INLINE i64 unit(const TileShape& tile) {
    const i64 both = tile.block_q | tile.block_k, rows = both & -both;  // the power of two in both
    return tile.unit * larger_of(tile.warps * tile.unit / rows, 1);
  }
  static constexpr REGARD_INLINE i64 larger_of(i64 a, i64 b) { return a > b ? a : b; }
  constexpr REGARD_INLINE i64 total() const {
    return keys + values + stages * (q + statistics) + grad_o + statistics + 2 * p + visible + common;
  }
};

}  // namespace regard::portable
