// How a tile of grad_q_sum lies in memory: as whoever adds to it has its sums in registers, so that 16 bytes
// of a thread lie beside those of its neighbours.
#pragma once

#include "kernels/arguments.h"
#include "kernels/inline.h"

namespace regard {

/// rows: block_q rows of all columns. fragments: slices of 64 rows each, and of a part of the columns where
/// there are more slices than that makes; a slice is the sums of a warpgroup's matrix product, float4 number
/// i * 128 + t of it being the sums 4i to 4i + 3 of thread t. Slices of one part come one after the other.
enum class GradQOrder : i32 { rows, fragments };

struct GradQTile {
  i32 rows, columns, slices;

  static constexpr i32 slice_length = 64, warpgroup = 128;

  /// Where the sum of a row and a column is, in floats.
  template <GradQOrder order>
  constexpr REGARD_INLINE i32 place(i32 row, i32 column) const {
    if (order == GradQOrder::rows) return row * columns + column;
    const i32 row_parts = rows / slice_length, width = columns / (slices / row_parts);
    const i32 slice = row / slice_length + column / width * row_parts;
    const i32 thread = row % slice_length / 16 * 32 + row % 8 * 4 + column % 8 / 2;
    const i32 vector = column % width / 8 * warpgroup + thread;
    return slice * slice_length * width + vector * 4 + row % 16 / 8 * 2 + column % 2;
  }
};

}  // namespace regard
