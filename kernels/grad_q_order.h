// How a tile of grad_q_sum lies in memory: as whoever adds to it has its sums in registers, so that 16 bytes
// of a thread lie beside those of its neighbours.
#pragma once

#include "kernels/arguments.h"
#include "kernels/inline.h"

namespace regard {

/// rows: block_q rows of all columns. fragments: slices of 64 rows each, and of a part of the columns where
/// there are more slices than that makes; a slice is the sums of a warpgroup's matrix product, float4 number
/// i * 128 + t of it being the sums 4i to 4i + 3 of thread t. transposed_fragments: the same with rows and
/// columns exchanged. Slices of one part come one after the other.
enum class GradQOrder : i32 { rows, fragments, transposed_fragments };

struct GradQTile {
  i32 rows, columns, slices;

  static constexpr i32 slice_length = 64, warpgroup = 128;

  /// Where the sum of a row and a column is, in floats.
  template <GradQOrder order>
  constexpr REGARD_INLINE i32 place(i32 row, i32 column) const {
    if (order == GradQOrder::rows) return row * columns + column;
    constexpr bool transposed = order == GradQOrder::transposed_fragments;
    const i32 m = transposed ? column : row, n = transposed ? row : column;
    const i32 parts_m = (transposed ? columns : rows) / slice_length, parts_n = slices / parts_m;
    const i32 length_n = (transposed ? rows : columns) / parts_n;
    const i32 slice = m / slice_length + n / length_n * parts_m;
    const i32 thread = m % slice_length / 16 * 32 + m % 8 * 4 + n % 8 / 2;
    const i32 vector = n % length_n / 8 * warpgroup + thread;
    return slice * slice_length * length_n + vector * 4 + m % 16 / 8 * 2 + n % 2;
  }
};

}  // namespace regard
