// What brings tiles to a block of backward.cu by TMA: K and V once, then Q with LSE, and dO with D, as far
// ahead as their rings have room.
#pragma once

#include "kernels/sm90/backward_shared.h"
#include "kernels/sm90/exact_div.h"
#include "kernels/sm90/ptx/tma.h"
#include "kernels/sm90/ragged.h"

namespace regard {

/// The rows of one sequence in a tensor, as its map finds them.
struct MappedRows {
  const TensorMap& map;
  bool ragged;
  i32 batch, first, count;  // ragged: of all rows in the map, those of the sequence

  REGARD_DEVICE MappedRows(const TensorMap& map_, const Rows& rows, const BackwardArguments& a,
                           const Work& work, bool of_queries)
      : map(map_), ragged(is_ragged(a)), batch(work.batch), first(0), count(0) {
    if (!ragged) return;
    const Sequence& s = work.sequence;
    // Varlen tensors have no batches; else rows divide them.
    const i64 before = rows.batch == 0 ? 0 : s.batch * i64{exact_div(rows.batch, rows.row)};
    first = static_cast<i32>(before + (of_queries ? s.first_q : s.first_k));
    count = static_cast<i32>(of_queries ? s.sq : s.sk);
  }

  /// A tile in boxes, one behind the other. Rows past the end of the sequence are zeros.
  template <i32 rows>
  REGARD_DEVICE void load(u32 to, i32 bytes, const Barrier& full, i32 head, i32 row) const {
#pragma unroll 1
    for (i32 box = 0; box < bytes / (rows * box_bytes); ++box) {
      const u32 place = to + box * rows * box_bytes;
      const i32 column = box * static_cast<i32>(Sm90BackwardLayout::box_columns);
      if (ragged)
        load_ragged_box(place, map, full, column, row, first, count, head);
      else
        load_box(place, map, full, column, row, head, batch);
    }
  }
};

/// K or V, and beside it Q or dO with a number of each row: LSE or D. By one thread.
template <i32 stages>
struct Loader {
  MappedRows of_keys, of_queries;
  Barrier& keys_full;
  Barrier *full, *empty;
  u32 keys, queries, row_numbers;  // places
  i32 keys_bytes, queries_bytes;
  const float* numbers;

  REGARD_DEVICE void run(const BackwardArguments& a, const Work& work) const {
    Tile tile(work);
    if (!tile.exists(work)) return;
    keys_full.expect(keys_bytes);
    of_keys.load<block_k>(keys, keys_bytes, keys_full, work.kv_head, work.first_key);
    Ring<stages> ring;
#pragma unroll 1
    for (; tile.exists(work); tile.advance(work), ring.advance()) {
      empty[ring.stage].wait(ring.parity ^ 1);
      Barrier& there = full[ring.stage];
      there.expect(queries_bytes + static_cast<u32>(layout.row_numbers));
      of_queries.load<block_q>(queries + ring.stage * queries_bytes, queries_bytes, there, tile.head,
                               tile.first_row());
      load_bytes(row_numbers + ring.stage * static_cast<u32>(layout.row_numbers),
                 numbers + first_padded_row(a, work.sequence, tile.head) + tile.first_row(),
                 static_cast<u32>(layout.row_numbers), there);
    }
  }
};

}  // namespace regard
