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
      float left[row_tiles][Fragment::halves][4];
      each_row([&](i32 m, i32 half) {
        load_shared(left[m][half], q + static_cast<u32>(row_offset(m, half) * layout.row_of_q + c * 4));
      });
#pragma unroll
      for (i32 n = 0; n < key_tiles; ++n) {
#pragma unroll
        for (i32 i = 0; i < Fragment::width; ++i) {
          float right[4];
          load_shared(right, k + static_cast<u32>((n * Fragment::columns + i) * layout.row_of_k + c * 4));
          each_row([&](i32 m, i32 half) {
            const float(&x)[4] = left[m][half];
            float& sum = s[m][n].x[half][i];
            sum = fmaf(x[0], right[0], fmaf(x[1], right[1], fmaf(x[2], right[2], fmaf(x[3], right[3], sum))));
          });
        }
      }
    }
  }

  struct P {
    Scores of;

    REGARD_DEVICE explicit P(u32) {}
    REGARD_DEVICE void pack(const Scores& s) {
#pragma unroll
      for (i32 m = 0; m < row_tiles; ++m)
#pragma unroll
        for (i32 n = 0; n < key_tiles; ++n) of[m][n] = s[m][n];
    }
    REGARD_DEVICE void keep(i32 m, i32 half, i32 n, u32 kept) {
#pragma unroll
      for (i32 i = 0; i < 4; ++i)
        if ((kept >> (8 * i + 7) & 1) == 0) of[m][n + i / 2].x[half][i % 2] = 0;
    }
    REGARD_DEVICE void share() const {}
  };

  /// o += P V; `v` is the address of the first key. The weight of a key comes from the lane that has
  /// it: a turn of the loop takes the keys of one lane of each fragment.
  REGARD_DEVICE static void add_values(Output& o, const P& p, u32 v) {
    v += static_cast<u32>(Fragment::column() * 4);
#pragma unroll 1
    for (i32 column = 0; column < Fragment::columns; column += Fragment::width) {
      const i32 from = Fragment::lane_of(column);
#pragma unroll
      for (i32 n = 0; n < key_tiles; ++n) {
#pragma unroll
        for (i32 i = 0; i < Fragment::width; ++i) {
          const u32 key = v + static_cast<u32>((n * Fragment::columns + column + i) * layout.row_of_v);
          RowNumbers weight;
          each_row([&](i32 m, i32 half) { weight[m][half] = from_lane(p.of[m][n].x[half][i], from); });
#pragma unroll
          for (i32 c = 0; c < column_tiles; ++c) {
            float right[2];
            load_shared(right, key + c * Fragment::columns * 4);
            each_row([&](i32 m, i32 half) {
              o[m][c].x[half][0] = fmaf(weight[m][half], right[0], o[m][c].x[half][0]);
              o[m][c].x[half][1] = fmaf(weight[m][half], right[1], o[m][c].x[half][1]);
            });
          }
        }
      }
    }
  }
};

}  // namespace regard
