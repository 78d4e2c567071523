// The ranges of keys that the rows of a block see by position: the tiles that have to be visited, and the
// keys inside them.
#pragma once

#include "kernels/key_part.h"
#include "kernels/machine/number.h"
#include "kernels/portable/pack_gqa.h"
#include "kernels/portable/score_tile.h"
#include "kernels/visible_bits.h"

namespace regard {

constexpr bool by_position = config::mask != Mask::none;
constexpr i32 word_keys = 32;
static_assert(block_k % word_keys == 0);

/// What the rows of a block see.
struct BlockKeyRange : CommonKeys32 {
  REGARD_DEVICE bool sees_tile(i32 key) const { return sees_all(key, key + block_k); }

  /// Whether some row sees the key.
  REGARD_DEVICE bool sees(i32 key) const {
    return any.contains(key) && !(by_position && between.contains(key));
  }

  /// The first tile from the one at `key` on with a key that some row sees; any.end or more if there is
  /// none.
  REGARD_DEVICE i32 tile_from(i32 key) const {
    return by_position && key >= between.begin ? larger(key, between.end / block_k * block_k) : key;
  }
};

using RowKeyRange = VisibleKeys32;

/// What a row sees of its sequence's keys.
REGARD_DEVICE RowKeyRange range_of_row(const Arguments& a, const Sequence& sequence, i32 row) {
  const VisibleKeys keys = visible_keys(a, sequence, row);
  const i32 sk = static_cast<i32>(sequence.sk);
  return {within(keys.window, sk), within(keys.sinks, sk)};
}

/// The key ranges of a block's rows, in shared memory.
struct RowKeyRanges {
  BlockKeyRange* common;
  RowKeyRange* rows;

  /// Finds them, by the whole block of threads, for one part of the keys. Rows past the last one repeat it.
  /// `packed`: which queries they are, if there are several heads' rows.
  REGARD_DEVICE void find(const Arguments& a, const SplitKeys& parts, const Sequence& sequence,
                          const Range32& of_block, const PackedRows& packed, i64 split) const {
    const i32 sk = static_cast<i32>(sequence.sk);
    if (thread() == 0)
      *common = by_position ? BlockKeyRange{{{sk, 0}, {0, sk}, {0, sk}}}
                            : BlockKeyRange{{{0, sk}, {0, sk}, {0, 0}}};
    sync_block();
    for (i32 i = thread(); by_position && i < block_q; i += threads) {
      const i32 row = smaller(of_block.begin + i, of_block.end - 1);
      rows[i] = range_of_row(a, sequence, packs_rows ? packed.query(row) : row);
      join(rows[i]);
    }
    sync_block();
    if (parts.splits > 1 && thread() == 0) {
      // Lengths are known here, and the plan knows a bound.
      Range32& any = common->any;
      const Range32 part = keys_of_part(parts, static_cast<i32>(split), any, block_k);
      any = {larger(any.begin, part.begin), smaller(any.end, part.end)};
      // A part past the keys would begin with the last tile, which belongs to another part.
      if (any.empty()) any.end = 0;
    }
    sync_block();
  }

  /// Which of the 32 keys from `key` on a row of the tile sees, one bit each.
  REGARD_DEVICE u32 word(i32 row_of_tile, i32 key) const { return visible_bits(rows[row_of_tile], key); }

 private:
  REGARD_DEVICE void join(const RowKeyRange& row) const {
    const bool window = !row.window.empty(), sinks = !row.sinks.empty();
    atomic_max(&common->all.begin, row.window.begin);
    atomic_min(&common->all.end, row.window.end);
    if (window) atomic_min(&common->between.end, row.window.begin);
    if (window || sinks) {
      atomic_min(&common->any.begin, sinks ? row.sinks.begin : row.window.begin);
      atomic_max(&common->any.end, larger(window ? row.window.end : 0, sinks ? row.sinks.end : 0));
    }
    if (sinks) atomic_max(&common->between.begin, row.sinks.end);
  }
};

}  // namespace regard
