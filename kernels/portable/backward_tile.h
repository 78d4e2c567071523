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
    config::softcap || (config::dropout && (config::bias != Bias::none || config::bits)) ||
    ((config::dropout || config::bits || (target::tight_registers && config::dbias)) && many_scores);
constexpr i32 steps_together = is_rich ? 1 : config::bias == Bias::alibi && score_tiles > 8 ? 2 : all_steps;

using Multiply = Product<operand != DType::fp32, steps_together>;

/// Q and K as they are stored, and with the summed rows as columns; likewise dO and V.
using RowsD = SharedOperand<layout.row_of_q, false>;
using ColumnsD = SharedOperand<layout.row_of_q, true>;
using RowsDv = SharedOperand<layout.row_of_v, false>;
using ColumnsDv = SharedOperand<layout.row_of_v, true>;
/// P and dS.
using RowsP = SharedOperand<layout.row_of_p, false>;
using ColumnsP = SharedOperand<layout.row_of_p, true>;

/// The sums of a wave in a `rows` by `columns` product of the block, of these operands.
template <i32 rows, i32 columns, class OperandA, class OperandB>
struct Share {
  static constexpr portable::Waves waves{config::warps, rows, columns, tile_shape().unit};
  static_assert(waves.down > 0, "no product of the smallest size for each wave");
  static constexpr i32 tiles_m = rows / Fragment::rows / waves.down;
  static constexpr i32 tiles_n = columns / Fragment::columns / waves.across;

  using Sums = Fragment[tiles_m][tiles_n];
  /// The part of the block's operands that the wave multiplies.
  using A = Multiply::A<OperandA, tiles_m>;
  using B = Multiply::B<OperandB, tiles_n, waves.across>;
  using Rows = DealtRows<A>;
  using Columns = typename B::Columns;

  REGARD_DEVICE static i32 row() { return thread() / wave / waves.across * tiles_m * Fragment::rows; }
  REGARD_DEVICE static i32 part() { return thread() / wave % waves.across; }

  REGARD_DEVICE static A a(u32 operand) { return {operand, row()}; }
  REGARD_DEVICE static B b(u32 operand) { return {operand, part()}; }

  /// function(row, column, numbers): each run of neighbours that this thread has, from this position on among
  /// the sums of the block.
  template <class Function>
  REGARD_DEVICE static void each_run(const Sums& sums, Function function) {
    const i32 first_row = row() + Rows::of_thread(), first_column = Columns::of_thread(part());
#pragma unroll
    for (i32 m = 0; m < tiles_m; ++m)
#pragma unroll
      for (i32 half = 0; half < Fragment::halves; ++half)
        Columns::each_run(sums[m], half, [&](i32 offset, const float(&x)[Columns::run]) {
          function(first_row + Rows::offset(m, half), first_column + offset, x);
        });
  }
};

using ShareOfK = Share<block_k, block_d, ColumnsP, ColumnsD>;
using ShareOfV = Share<block_k, block_dv, ColumnsP, ColumnsDv>;
using ShareOfQ = Share<block_q, block_d, RowsP, ColumnsD>;

}  // namespace regard
