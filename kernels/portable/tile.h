// The tile of forward.cu: its sizes, and which wave has which columns of O.
#pragma once

#include "kernels/portable/product.h"
#include "kernels/portable/product_fp32.h"

namespace regard {

constexpr portable::ForwardLayout layout(tile_shape());
constexpr i32 block_d = layout.block_d, block_dv = layout.block_dv, stages = layout.stages;
constexpr i32 steps_d = layout.d / block_d;
static_assert(steps_d == 1 || stages == 1, "K in parts has one buffer");
constexpr bool shares_tile = portable::shares_tile(config::latent, config::d);
static_assert(steps_d == 1 || !shares_tile, "V is read from whole rows of K");

/// Waves that share rows each have a part of the columns of O.
constexpr i32 wave_columns = block_dv / across, column_tiles = wave_columns / Fragment::columns;
static_assert(wave_columns % layout.unit == 0);
static_assert(across == 1 || (across == 2 && config::warps % 2 == 0 && operand != DType::fp32));

using Output = Fragment[row_tiles][column_tiles];

using Multiply = Product<operand != DType::fp32, all_steps>;

/// Q and K as they are stored, V with the summed rows as columns, and P, if waves share it.
using RowsQ = SharedOperand<layout.row_of_q, false>;
using RowsK = SharedOperand<layout.row_of_k, false>;
using ColumnsV = SharedOperand<layout.row_of_v, true, (across > 1 ? SumOrder::memory : SumOrder::p)>;
using RowsP = SharedOperand<layout.row_of_p, false>;

/// What a wave multiplies in each product, and the columns of O that it has.
using WaveQ = Multiply::A<RowsQ, row_tiles>;
using WaveK = Multiply::B<RowsK, key_tiles>;
using WaveV = Multiply::B<ColumnsV, column_tiles, across>;
using WaveP = Multiply::A<RowsP, row_tiles>;
using OutputColumns = WaveV::Columns;

/// Whether x holds for any of the threads that decide together: those of a wave, or of the block if waves
/// share rows.
REGARD_DEVICE bool any_together(bool x) {
  return across > 1 ? any_in_block(x) : any_in_wave(x);
}

}  // namespace regard
