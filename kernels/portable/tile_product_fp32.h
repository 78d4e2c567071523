// Sums += A B of tiles of fp32 in shared memory by multiply-adds, with sums where matrix instructions would
// have them.
#pragma once

#include "kernels/portable/tile_product.h"

namespace regard {

template <>
struct TileProduct<false> {
  template <i32 length, i32 across, i32 tiles_m, i32 tiles_n, class A, class B>
  REGARD_DEVICE static void add(Fragment (&c)[tiles_m][tiles_n], A a, B b, i32 row, i32 part) {
    constexpr i32 together = 4;
    static_assert(length % together == 0);
    const i32 column = part * 2 * Fragment::columns + Fragment::column();
    row += Fragment::row();
#pragma unroll 1
    for (i32 k = 0; k < length; k += together) {
      float x[tiles_m][Fragment::halves][together];
#pragma unroll
      for (i32 m = 0; m < tiles_m; ++m)
#pragma unroll
        for (i32 half = 0; half < Fragment::halves; ++half)
          load<A>(x[m][half], a.first, row + m * Fragment::rows + half * Fragment::row_step, k);
#pragma unroll
      for (i32 n = 0; n < tiles_n; ++n) {
#pragma unroll
        for (i32 i = 0; i < Fragment::width; ++i) {
          float y[together];
          load<B>(y, b.first, column + column_of_tile(n, across) + i, k);
#pragma unroll
          for (i32 m = 0; m < tiles_m; ++m)
#pragma unroll
            for (i32 half = 0; half < Fragment::halves; ++half) {
              const float(&z)[together] = x[m][half];
              float& sum = c[m][n].x[half][i];
              sum = fmaf(z[0], y[0], fmaf(z[1], y[1], fmaf(z[2], y[2], fmaf(z[3], y[3], sum))));
            }
        }
      }
    }
  }

 private:
  /// Four numbers that are multiplied with each other, of one row or column of the sums.
  template <class Operand>
  REGARD_DEVICE static void load(float (&x)[4], u32 first, i32 of_sums, i32 k) {
    if constexpr (Operand::transposed) {
#pragma unroll
      for (i32 i = 0; i < 4; ++i)
        load_shared(x[i], first + static_cast<u32>((k + i) * Operand::row_bytes + of_sums * 4));
    } else {
      load_shared(x, first + static_cast<u32>(of_sums * Operand::row_bytes + k * 4));
    }
  }
};

}  // namespace regard
