// How forward.cpp divides the scratch memory of a thread and a step of the keys. The plan computes both
// sizes with the same constants.
#pragma once

#include "kernels/cpu/long_sum_layout.h"

namespace regard {

/// What the layout depends on. Depths are the operand elements (kernels/cpu/product.h) that d and block_k
/// numbers take, times `pieces`. `gathered_bytes`: those of a number of K and V whose rows are gathered
/// first, else 0.
struct ForwardShape {
  i64 depth, key_depth;
  int pieces;
  i64 dv, block_q, block_k;
  bool bias;
  i64 gathered_bytes, d;
};

/// Offsets in bytes; every part starts at a multiple of 64.
struct CpuForwardLayout {
  static constexpr i64 tile = 64;  // query rows that are computed together

  i64 q, output, keys, values, scores, p, bias;  // of one part
  i64 gathered_keys, gathered_values;            // rows of a step in memory order
  i64 tiles;

  /// If P is in pieces, the low ones are stored in `p`.
  constexpr explicit CpuForwardLayout(const ForwardShape& s)
      : q(s.pieces * s.depth * tile * 4),
        output(padded(s.dv) * tile * 4),
        keys(s.pieces * aligned(s.depth * s.block_k * 4)),
        values(s.pieces * s.key_depth * padded(s.dv) * 4),
        scores(s.block_k * tile * 4),
        p(s.key_depth * tile * 4),
        bias(s.bias ? s.block_k * tile * 4 : 0),
        gathered_keys(aligned(s.block_k * s.d * s.gathered_bytes)),
        gathered_values(aligned(s.block_k * s.dv * s.gathered_bytes)),
        tiles(s.block_q / tile) {}

  /// Columns of O and V: whole vectors on every target.
  static constexpr i64 padded(i64 dv) { return (dv + 15) / 16 * 16; }
  static constexpr i64 aligned(i64 bytes) { return (bytes + 63) / 64 * 64; }

  constexpr i64 total() const {
    return tiles * (q + output) + keys + values + scores + p + bias + gathered_keys + gathered_values;
  }

  /// The sums of earlier parts of a tile, if the keys are cut into several parts; stored after everything
  /// else.
  constexpr i64 earlier() const { return earlier_sums(tile, output / 4) * 4; }
  constexpr i64 total_of(i64 sk, i64 block_k) const {
    return total() + (is_long_sum(0, sk, part_of_keys(block_k)) ? tiles * earlier() : 0);
  }
};

}  // namespace regard
