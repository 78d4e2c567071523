// The tile of backward.cu: its sizes, and how waves share its products.
#pragma once

#include "kernels/backward_schedule.h"
#include "kernels/portable/backward_layout.h"
#include "kernels/portable/product.h"
#include "kernels/portable/product_fp32.h"

namespace regard {

constexpr portable::BackwardLayout layout(tile_shape());
constexpr i32 block_d = layout.block_d, block_dv = layout.block_dv, parts = layout.parts;
/// Whether K and V stay in shared memory; otherwise all four are loaded in parts of their columns, one after
/// the other.
constexpr bool whole = parts == 1;
constexpr i32 stages = whole ? layout.stages : 1;

/// Features that change scores take registers from the products, which then must not read far ahead or
/// overlap with other work.
constexpr i32 score_tiles = row_tiles * key_tiles;
constexpr bool many_scores = score_tiles > (target::tight_registers ? 7 : 8);
constexpr bool is_rich =
    config::softcap || (config::dropout && config::bias != Bias::none) ||
    ((config::dropout || config::bits || (target::tight_registers && config::dbias)) && many_scores);
constexpr i32 steps_together = is_rich ? 1 : config::bias == Bias::alibi && score_tiles > 8 ? 2 : all_steps;

using Multiply = Product<operand != DType::fp32, steps_together>;

/// The sums of a wave in a `rows` by `columns` product of the block.
template <i32 rows, i32 columns>
struct Share {
  static constexpr portable::Waves waves{config::warps, rows, columns};
  static_assert(waves.down > 0, "no product of 16 by 16 for each wave");
  static constexpr i32 across = waves.across;
  static constexpr i32 tiles_m = rows / Fragment::rows / waves.down;
  static constexpr i32 tiles_n = columns / Fragment::columns / across;

  using Sums = Fragment[tiles_m][tiles_n];

  REGARD_DEVICE static i32 row() { return thread() / wave / across * tiles_m * Fragment::rows; }
  REGARD_DEVICE static i32 part() { return thread() / wave % across; }

  /// The part of the block's operands that the wave multiplies.
  template <class Operand>
  REGARD_DEVICE static Multiply::A<Operand> a(u32 operand) {
    return {operand, row()};
  }
  template <class Operand>
  REGARD_DEVICE static Multiply::B<Operand, across> b(u32 operand) {
    return {operand, part()};
  }

  /// function(fragment, row, column): for each fragment, the position of this thread's first number among
  /// those of the block.
  template <class Function>
  REGARD_DEVICE static void each(Sums& sums, Function function) {
    const i32 first_row = row() + Fragment::row();
    const i32 first_column = column_of_part(part()) + Fragment::column();
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

/// Q and K as they are stored, and with the summed rows as columns; likewise dO and V.
using RowsD = SharedOperand<layout.row_of_q, false>;
using ColumnsD = SharedOperand<layout.row_of_q, true>;
using RowsDv = SharedOperand<layout.row_of_v, false>;
using ColumnsDv = SharedOperand<layout.row_of_v, true>;
/// P and dS.
using RowsP = SharedOperand<layout.row_of_p, false>;
using ColumnsP = SharedOperand<layout.row_of_p, true>;

}  // namespace regard
