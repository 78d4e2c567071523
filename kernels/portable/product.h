// The two products of attention, by matrix instructions: scores of Q and K, and output of weights and V.
#pragma once

#include "kernels/portable/cuda/matrix.h"
#include "kernels/portable/tile.h"

namespace regard {

constexpr i32 depth = 16;  // of one matrix product
constexpr i32 depth_bytes = depth * operand_bytes;

template <i32 row_bytes>
REGARD_DEVICE u32 place_of(SquareRow lane) {
  return place<row_bytes>(lane.row, lane.vector * 16);
}

template <>
struct Products<true> {
  /// s += Q K^T over block_d columns; `q` and `k` are addresses of the wave's first row and of the first key.
  REGARD_DEVICE static void add_scores(Scores& s, u32 q, u32 k) {
    q += place_of<layout.row_of_q>(SquareRow::of_left());
    k += place_of<layout.row_of_k>(SquareRow::of_rights());
#pragma unroll
    for (i32 i = 0; i < block_d / depth; ++i) {
      Left left[row_tiles];
#pragma unroll
      for (i32 m = 0; m < row_tiles; ++m)
        load_squares(left[m],
                     along<layout.row_of_q>(q, i * depth_bytes) + m * Fragment::rows * layout.row_of_q);
#pragma unroll
      for (i32 n = 0; n < key_tiles; n += 2) {
        u32 right[4];
        load_squares(right,
                     along<layout.row_of_k>(k, i * depth_bytes) + n * Fragment::columns * layout.row_of_k);
#pragma unroll
        for (i32 m = 0; m < row_tiles; ++m) {
          multiply_add<operand>(s[m][n], left[m], right[0], right[1]);
          multiply_add<operand>(s[m][n + 1], left[m], right[2], right[3]);
        }
      }
    }
  }

  /// Weights as the left operand of the next product: sums lie as it takes them.
  using Weights = Left[row_tiles][block_k / depth];

  REGARD_DEVICE static void pack(Weights& weights, const Scores& s) {
#pragma unroll
    for (i32 m = 0; m < row_tiles; ++m) {
#pragma unroll
      for (i32 i = 0; i < block_k / depth * 4; ++i) {
        const Fragment& from = s[m][i / 2];
        weights[m][i / 4][i % 4] = pair<operand>(from.x[i % 2][0], from.x[i % 2][1]);
      }
    }
  }

  /// o += weights V; `v` is the address of the first key.
  REGARD_DEVICE static void add_values(Output& o, const Weights& weights, u32 v) {
    v += place_of<layout.row_of_v>(SquareRow::of_left());
#pragma unroll
    for (i32 i = 0; i < block_k / depth; ++i) {
#pragma unroll
      for (i32 n = 0; n < column_tiles; n += 2) {
        u32 right[4];
        load_turned(right, along<layout.row_of_v>(v, n * Fragment::columns * operand_bytes) +
                               i * depth * layout.row_of_v);
#pragma unroll
        for (i32 m = 0; m < row_tiles; ++m) {
          multiply_add<operand>(o[m][n], weights[m][i], right[0], right[1]);
          multiply_add<operand>(o[m][n + 1], weights[m][i], right[2], right[3]);
        }
      }
    }
  }
};

}  // namespace regard
