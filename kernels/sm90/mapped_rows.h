// The rows of one sequence in a tensor, addressed through its tensor map: boxes of them are loaded and
// stored by TMA.
#pragma once

#include "kernels/cuda/warp.h"
#include "kernels/sm90/ptx/cluster.h"
#include "kernels/sm90/ptx/tma.h"

namespace regard {

/// The quotient of a number that `divisor` divides evenly, if it has 32 bits: uses the odd part's inverse
/// modulo 2^32; each step doubles its correct bits. A 64-bit division is a function call and expensive to
/// compile.
REGARD_DEVICE u32 exact_div(u64 number, u64 divisor) {
  const i32 twos = __ffsll(static_cast<i64>(divisor)) - 1;
  const u32 odd = static_cast<u32>(divisor >> twos);
  u32 inverse = odd;
#pragma unroll
  for (i32 right = 3; right < 32; right *= 2) inverse *= 2 - odd * inverse;
  return static_cast<u32>(number >> twos) * inverse;
}

struct MappedRows {
  const TensorMap& map;
  bool ragged;
  i32 batch;
  i32 first, count;  // ragged: among all rows in the map, those of the sequence

  /// Rows of a batch in a ragged map. Varlen tensors have no batches; otherwise the batch stride is
  /// divisible by the row stride.
  REGARD_DEVICE static i32 per_batch(const Rows& rows) {
    return static_cast<i32>(exact_div(rows.batch, rows.row));
  }

  /// Loads a tile in boxes, one after the other. Rows past the end of the sequence are zeros. If a tile is
  /// for several blocks of a cluster, they load its boxes in turn.
  template <i32 rows, i32 box_columns, i32 blocks = 1>
  REGARD_DEVICE void load(u32 to, i32 bytes, const Barrier& full, i32 head, i32 row) const {
    constexpr i32 box_bytes = rows * static_cast<i32>(Sm90Boxes::box_bytes);
#pragma unroll 1
    for (i32 box = 0; box < bytes / box_bytes; ++box) {
      const u32 address = to + box * box_bytes;
      const i32 column = box * box_columns;
      if (blocks > 1 && box % blocks != cluster_rank()) continue;
      if constexpr (blocks > 1)
        load_box_in_both(address, map, full, column, row, head, batch);
      else if (ragged)
        load_ragged_box(address, map, full, column, row, first, count, head);
      else
        load_box(address, map, full, column, row, head, batch);
    }
  }

  /// One box.
  REGARD_DEVICE void store(u32 from, i32 column, i32 head, i32 row) const {
    if (ragged)
      store_ragged_box(map, from, column, row, first, count, head);
    else
      store_box(map, from, column, row, head, batch);
  }
};

}  // namespace regard
