// How backward.cu shares out its products among waves, and how it divides its block's shared memory. The plan
// asks for as much with the same constants.
#pragma once

#include "kernels/portable/forward_layout.h"

namespace regard::portable {

/// How the waves of a block share a product of `rows` by `columns`: `down` of them have different rows, and
/// `across` different columns; each has whole matrix products of 16 by 16. The one with the least to read.
struct Waves {
  i64 down = 0, across = 0;

  constexpr REGARD_INLINE Waves(i64 warps, i64 rows, i64 columns) {
    i64 least = 0;
    for (i64 wide = 1; wide <= warps; wide *= 2) {
      const i64 high = warps / wide;
      if (high * wide != warps || rows % (16 * high) != 0 || columns % (16 * wide) != 0) continue;
      const i64 read = rows / high + columns / wide;
      if (down != 0 && read >= least) continue;
      least = read;
      down = high;
      across = wide;
    }
  }
};

/// Sizes in bytes; rows lie as forward's do. Where Q, K, V and dO do not fit in their width, a block has
/// block_d columns of dQ and dK and block_dv of dV: one of `parts`.
struct BackwardLayout {
  i64 block_d, block_dv, parts;
  i64 row_of_q, row_of_v, row_of_p;  // of Q and K, of V and dO, of P and dS
  i64 q, keys, grad_o, values, p;    // of one tile
  i64 statistics;                    // a number of each row
  i64 visible, common;
  i64 stages;

  constexpr REGARD_INLINE BackwardLayout(i64 bytes, i64 dim, i64 dim_v, i64 block_q, i64 block_k, i64 step_d,
                                         i64 step_dv, i64 pipeline, i64 warps)
      : block_d(ForwardLayout::step(step_d, dim, unit(block_q, block_k, warps))),
        block_dv(ForwardLayout::step(step_dv, dim_v, unit(block_q, block_k, warps))),
        parts(larger_of((dim + block_d - 1) / block_d, (dim_v + block_dv - 1) / block_dv)),
        row_of_q(ForwardLayout::row(block_d, bytes)),
        row_of_v(ForwardLayout::row(block_dv, bytes)),
        row_of_p(ForwardLayout::row(block_k, bytes)),
        q(block_q * row_of_q),
        keys(block_k * row_of_q),
        grad_o(block_q * row_of_v),
        values(block_k * row_of_v),
        p(block_q * row_of_p),
        statistics(block_q * 4),
        visible(block_q * 16),
        common(224),
        stages(pipeline > 1 ? 2 : 1) {}

  /// Columns of which each wave has some in every product.
  static constexpr REGARD_INLINE i64 unit(i64 block_q, i64 block_k, i64 warps) {
    const i64 rows = (block_q | block_k) & -(block_q | block_k);  // the power of two in both
    return 16 * larger_of(warps * 16 / rows, 1);
  }
  static constexpr REGARD_INLINE i64 larger_of(i64 a, i64 b) { return a > b ? a : b; }
  constexpr REGARD_INLINE i64 total() const {
    return keys + values + stages * (q + statistics) + grad_o + statistics + 2 * p + visible + common;
  }
};

}  // namespace regard::portable
