// The two products of attention, by matrix instructions: scores of Q and K, and output of P and V.
#pragma once

#include "kernels/portable/p.h"

namespace regard {

template <>
struct Products<true> {
  /// s += Q K^T over block_d columns; `q` and `k` are addresses of the wave's first row and of the first key.
  REGARD_DEVICE static void add_scores(Scores& s, u32 q, u32 k) {
    q += place_of<layout.row_of_q>(LdmatrixRow::of_left());
    k += place_of<layout.row_of_k>(LdmatrixRow::of_rights());
#pragma unroll
    for (i32 i = 0; i < block_d / depth; ++i) {
      Left left[row_tiles];
#pragma unroll
      for (i32 m = 0; m < row_tiles; ++m)
        ldmatrix(left[m], along<layout.row_of_q>(q, i * depth_bytes) + m * Fragment::rows * layout.row_of_q);
#pragma unroll
      for (i32 n = 0; n < key_tiles; n += 2) {
        u32 right[4];
        ldmatrix(right, along<layout.row_of_k>(k, i * depth_bytes) + n * Fragment::columns * layout.row_of_k);
#pragma unroll
        for (i32 m = 0; m < row_tiles; ++m) {
          multiply_add<operand>(s[m][n], left[m], right[0], right[1]);
          multiply_add<operand>(s[m][n + 1], left[m], right[2], right[3]);
        }
      }
    }
  }

  using P = LeftP<(across > 1)>;

  /// o += P V; `v` is the address of the first key.
  REGARD_DEVICE static void add_values(Output& o, const P& p, u32 v) {
    v += place_of<layout.row_of_v>(LdmatrixRow::of_left(), column_of_wave());
#pragma unroll
    for (i32 i = 0; i < block_k / depth; ++i) {
      Left left[row_tiles];
#pragma unroll
      for (i32 m = 0; m < row_tiles; ++m) p.load(left[m], m, i);
#pragma unroll
      for (i32 n = 0; n < column_tiles; n += 2) {
        u32 right[4];
        ldmatrix_trans(
            right, along<layout.row_of_v>(v, column_offset(n) * operand_bytes) + i * depth * layout.row_of_v);
#pragma unroll
        for (i32 m = 0; m < row_tiles; ++m) {
          multiply_add<operand>(o[m][n], left[m], right[0], right[1]);
          multiply_add<operand>(o[m][n + 1], left[m], right[2], right[3]);
        }
      }
    }
  }
};

}  // namespace regard
