// The two products of attention in fp32 by multiply-adds, with sums where matrix instructions would have
// them.
#pragma once

#include "kernels/portable/tile.h"

namespace regard {

template <>
struct Products<false> {
  /// s += Q K^T over block_d columns; `q` and `k` are addresses of the wave's first row and of the first key.
  REGARD_DEVICE static void add_scores(Scores& s, u32 q, u32 k) {
    q += static_cast<u32>(Fragment::row() * layout.row_of_q);
    k += static_cast<u32>(Fragment::column() * layout.row_of_k);
#pragma unroll 1
    for (i32 c = 0; c < block_d; c += 4) {
      float4 left[row_tiles][Fragment::halves];
      each_row([&](i32 m, i32 half) {
        left[m][half] =
            load_shared<float4>(q + static_cast<u32>(row_offset(m, half) * layout.row_of_q + c * 4));
      });
#pragma unroll
      for (i32 n = 0; n < key_tiles; ++n) {
#pragma unroll
        for (i32 i = 0; i < Fragment::width; ++i) {
          const float4 right = load_shared<float4>(
              k + static_cast<u32>((n * Fragment::columns + i) * layout.row_of_k + c * 4));
          each_row([&](i32 m, i32 half) {
            const float4 a = left[m][half];
            float& sum = s[m][n].x[half][i];
            sum = fmaf(a.x, right.x, fmaf(a.y, right.y, fmaf(a.z, right.z, fmaf(a.w, right.w, sum))));
          });
        }
      }
    }
  }

  using Weights = Scores;

  REGARD_DEVICE static void pack(Weights& weights, const Scores& s) {
#pragma unroll
    for (i32 m = 0; m < row_tiles; ++m)
#pragma unroll
      for (i32 n = 0; n < key_tiles; ++n) weights[m][n] = s[m][n];
  }

  /// o += weights V; `v` is the address of the first key. The weight of a key comes from the lane that has
  /// it.
  REGARD_DEVICE static void add_values(Output& o, const Weights& weights, u32 v) {
    v += static_cast<u32>(Fragment::column() * 4);
#pragma unroll
    for (i32 key = 0; key < block_k; ++key) {
      const i32 n = key / Fragment::columns, column = key % Fragment::columns;
      RowNumbers weight;
      each_row([&](i32 m, i32 half) {
        weight[m][half] =
            from_lane(weights[m][n].x[half][column % Fragment::width], Fragment::lane_of(column));
      });
#pragma unroll
      for (i32 c = 0; c < column_tiles; ++c) {
        const float2 right =
            load_shared<float2>(v + static_cast<u32>(key * layout.row_of_v + c * Fragment::columns * 4));
        each_row([&](i32 m, i32 half) {
          o[m][c].x[half][0] = fmaf(weight[m][half], right.x, o[m][c].x[half][0]);
          o[m][c].x[half][1] = fmaf(weight[m][half], right.y, o[m][c].x[half][1]);
        });
      }
    }
  }
};

}  // namespace regard
