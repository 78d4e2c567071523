// Loads tiles for a block of backward.cu by TMA: K and V once, then Q with LSE, and dO with D, as far ahead
// as their rings have room.
#pragma once

#include "kernels/sm90/backward_shared.h"
#include "kernels/sm90/mapped_rows.h"
#include "kernels/sm90/ragged.h"

namespace regard {

REGARD_DEVICE MappedRows mapped_rows(const TensorMap& map, const Rows& rows, const BackwardArguments& a,
                                     const Sm90BackwardWork& work, bool of_queries) {
  MappedRows mapped{map, ragged(a), work.batch, 0, 0};
  if (!mapped.ragged) return mapped;
  const Sequence& s = work.sequence;
  mapped.first =
      static_cast<i32>(s.batch * MappedRows::per_batch(rows) + (of_queries ? s.first_q : s.first_k));
  mapped.count = static_cast<i32>(of_queries ? s.sq : s.sk);
  return mapped;
}

/// Loads K or V, along with Q or dO and one number per row: LSE or D. By one thread.
template <i32 stages>
struct Loader {
  MappedRows of_keys, of_queries;
  Barrier& keys_full;
  Barrier *full, *empty;
  u32 keys, queries, row_numbers;  // addresses
  i32 keys_bytes, queries_bytes;
  const float* numbers;

  static constexpr i32 box_columns = Sm90BackwardLayout::box_columns;

  REGARD_DEVICE void run(const BackwardArguments& a, const Sm90BackwardWork& work) const {
    QueryTileCursor tile(work);
    if (!tile.exists(work)) return;
    keys_full.expect(keys_bytes);
    of_keys.load<block_k, box_columns>(keys, keys_bytes, keys_full, work.kv_head, work.first_key);
    Ring<stages> ring;
#pragma unroll 1
    for (; tile.exists(work); tile.advance(work), ring.advance()) {
      const QueryTile of = tile.at(work);
      empty[ring.slot].wait(ring.parity ^ 1);
      Barrier& there = full[ring.slot];
      there.expect(queries_bytes + static_cast<u32>(layout.row_numbers));
      of_queries.load<block_q, box_columns>(queries + ring.slot * queries_bytes, queries_bytes, there,
                                            of.head, of.first_row());
      load_bytes(row_numbers + ring.slot * static_cast<u32>(layout.row_numbers),
                 numbers + first_padded_row(a, work.sequence, of.head) + of.first_row(),
                 static_cast<u32>(layout.row_numbers), there);
    }
  }
};

}  // namespace regard
