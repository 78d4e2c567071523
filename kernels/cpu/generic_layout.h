// How the generic kernels divide a problem into blocks, and the scratch memory of a thread. The plan
// computes the grid and the size of the scratch with the same functions.
#pragma once

#include "kernels/cpu/long_sum_layout.h"

namespace regard {

struct GenericLayout {
  static constexpr i64 tile_rows = 64;  // query rows that are computed together
  static constexpr i64 tile_keys = 64;  // keys of one step: whole words of bits, one group of dropout

  /// Columns of a tile: whole vectors on every target.
  static constexpr i64 padded(i64 columns) { return (columns + 15) / 16 * 16; }
  static constexpr i64 tiles(i64 rows, i64 tile) { return (rows + tile - 1) / tile; }

  // In floats; every part starts at a multiple of 64 bytes.
  i64 q, grad_o;             // [row][column]
  i64 k, v;                  // [key][column]
  i64 k_columns, v_columns;  // [column][key]
  i64 scores, grads;         // [row][key]
  i64 row_of_keys;           // bias, dropout and slope of the softcap, one row at a time

  constexpr GenericLayout(i64 d, i64 dv)
      : q(tile_rows * padded(d)),
        grad_o(tile_rows * padded(dv)),
        k(tile_keys * padded(d)),
        v(tile_keys * padded(dv)),
        k_columns(tile_keys * padded(d)),
        v_columns(tile_keys * padded(dv)),
        scores(tile_rows * tile_keys),
        grads(tile_rows * tile_keys),
        row_of_keys(3 * tile_keys) {}

  /// Scratch memory of a function with that many steps: a word for each key of a tile and step.
  static constexpr i64 function_bytes(i64 steps) { return product(4 * tile_keys, steps); }
  /// That of a mask whose bits are written: a word for each key and for each row, and an interval.
  static constexpr i64 mask_bytes(i64 steps) { return product(4 * (tile_keys + tile_rows) + 16, steps); }

  constexpr i64 forward_bytes() const {
    return 4 * (q + grad_o + k + k_columns + v + scores + row_of_keys + earlier_sums(tile_rows, grad_o));
  }
  /// The sums of a block are stored there twice (long_sum.h).
  constexpr i64 backward_bytes() const {
    return 4 * (q + grad_o + 3 * (k + v) + k_columns + v_columns + 3 * scores + grads + row_of_keys);
  }

  // The largest number if the result overflows: the plan refuses such a grid.
  static constexpr i64 largest = 0x7fffffffffffffff;
  static constexpr i64 product(i64 a, i64 b) {
    i64 result = 0;
    return __builtin_mul_overflow(a, b, &result) ? largest : result;
  }
  static constexpr i64 sum(i64 a, i64 b) {
    i64 result = 0;
    return __builtin_add_overflow(a, b, &result) ? largest : result;
  }

  /// Blocks of the backward kernel, kind after kind; no two of them write the same element.
  struct BackwardGrid {
    i64 grad_q;         // one per tile of query rows of a head
    i64 grad_kv;        // one per tile of keys of a K/V head
    i64 grad_bias;      // one per tile of a bias matrix
    i64 grad_sink;      // one per head
    i64 grad_captured;  // one for all captured tensors
    constexpr i64 total() const {
      return sum(sum(sum(grad_q, grad_kv), sum(grad_bias, grad_sink)), grad_captured);
    }
  };
  static constexpr BackwardGrid backward_grid(i64 b, i64 hq, i64 hk, i64 sq, i64 sk, i64 bias_matrices,
                                              bool sink, bool captured) {
    const i64 row_tiles = tiles(sq, tile_rows), key_tiles = tiles(sk, tile_keys);
    return {product(product(b, hq), row_tiles), product(product(b, hk), key_tiles),
            product(product(bias_matrices, row_tiles), key_tiles), sink ? hq : 0, captured ? 1 : 0};
  }
};

}  // namespace regard
