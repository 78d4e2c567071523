// The tile of backward.cu: its sizes, and how waves share its products.
#pragma once

#include "kernels/backward_schedule.h"
#include "kernels/portable/backward_layout.h"
#include "kernels/portable/tile_product.h"
#include "kernels/portable/tile_product_fp32.h"

namespace regard {

constexpr portable::BackwardLayout layout(bytes_of<key::dtype>, key::d, key::dv, key::block_q, key::block_k,
                                          key::block_d, key::block_dv, key::stages, key::warps);
constexpr i32 block_d = layout.block_d, block_dv = layout.block_dv, parts = layout.parts;
/// K and V stay in shared memory; or columns of all four come one after the other.
constexpr bool whole = parts == 1;
constexpr i32 stages = whole ? layout.stages : 1;

using Multiply = TileProduct<operand != DType::fp32>;

/// The sums of a wave in a product that the block makes of `rows` by `columns`.
template <i32 rows, i32 columns>
struct Share {
  static constexpr portable::Waves waves{key::warps, rows, columns};
  static_assert(waves.down > 0, "no product of 16 by 16 for each wave");
  static constexpr i32 across = waves.across;
  static constexpr i32 tiles_m = rows / Fragment::rows / waves.down;
  static constexpr i32 tiles_n = columns / Fragment::columns / across;

  using Sums = Fragment[tiles_m][tiles_n];

  REGARD_DEVICE static i32 row() { return thread() / wave / across * tiles_m * Fragment::rows; }
  REGARD_DEVICE static i32 part() { return thread() / wave % across; }

  /// function(fragment, row, column): of each, where this thread's first number is among those of the block.
  template <class Function>
  REGARD_DEVICE static void each(Sums& sums, Function function) {
    const i32 first_row = row() + Fragment::row();
    const i32 first_column = part() * 2 * Fragment::columns + Fragment::column();
#pragma unroll
    for (i32 m = 0; m < tiles_m; ++m)
#pragma unroll
      for (i32 n = 0; n < tiles_n; ++n)
        function(sums[m][n], first_row + m * Fragment::rows, first_column + column_of_tile(n, across));
  }
};

using ShareOfK = Share<block_k, block_d>;
using ShareOfV = Share<block_k, block_dv>;
using ShareOfQ = Share<block_q, block_d>;

/// Q and K as they lie, and with what is summed over rows in columns; likewise dO and V.
using RowsD = SharedOperand<layout.row_of_q, false>;
using ColumnsD = SharedOperand<layout.row_of_q, true>;
using RowsDv = SharedOperand<layout.row_of_v, false>;
using ColumnsDv = SharedOperand<layout.row_of_v, true>;
/// P and dS.
using RowsP = SharedOperand<layout.row_of_p, false>;
using ColumnsP = SharedOperand<layout.row_of_p, true>;

}  // namespace regard
