// The ranges of keys that the rows of a block see by position: the tiles that are worth a look, and the keys
// inside them.
#pragma once

#include "kernels/machine/element.h"
#include "kernels/portable/score_tile.h"
#include "kernels/sequence.h"
#include "kernels/split_keys.h"

namespace regard {

constexpr bool by_position = key::mask != Mask::none;
constexpr i32 word_keys = 32;
static_assert(block_k % word_keys == 0);

/// What the key ranges of a block's rows have in common.
struct BlockKeyRange {
  i32 first, last;            // no row sees a key outside [first, last)
  i32 all_first, all_last;    // every row sees every key of [all_first, all_last)
  i32 sink_last, left_first;  // some row may see a key before sink_last; none in [sink_last, left_first)

  REGARD_DEVICE bool sees_all(i32 key) const { return key >= all_first && key + block_k <= all_last; }

  /// The first tile from the one at `key` on with a key that some row sees; `last` or more when there is
  /// none.
  REGARD_DEVICE i32 tile_from(i32 key) const {
    return by_position && key >= sink_last ? larger(key, left_first / block_k * block_k) : key;
  }
};

/// A row sees the keys [lo, hi) and, left of them, the sink tokens [sink_lo, sink_hi).
using RowKeyRange = int4;

/// The key ranges of a block's rows, in shared memory.
struct RowKeyRanges {
  BlockKeyRange* common;
  RowKeyRange* rows;

  /// Finds them, by the whole block of threads, for one part of the keys. Rows behind the last one repeat it.
  REGARD_DEVICE void find(const Arguments& a, const SplitKeys& parts, const Sequence& sequence, i32 first_row,
                          i64 split) const {
    const i32 sk = static_cast<i32>(sequence.sk), sq = static_cast<i32>(sequence.sq);
    const auto inside = [sk](i64 key) { return static_cast<i32>(larger<i64>(smaller<i64>(key, sk), 0)); };
    if (thread() == 0)
      *common = by_position ? BlockKeyRange{sk, 0, 0, sk, 0, sk} : BlockKeyRange{0, sk, 0, sk, 0, 0};
    __syncthreads();
    for (i32 i = thread(); by_position && i < block_q; i += threads) {
      const KeyRange keys = visible_keys(a, sequence, smaller(first_row + i, sq - 1));
      rows[i] = make_int4(inside(keys.lo), inside(keys.hi), inside(keys.sink_lo), inside(keys.sink_hi));
      join(rows[i]);
    }
    __syncthreads();
    if (parts.splits > 1 && thread() == 0) {
      common->first = larger(common->first, inside(split * parts.split_keys));
      common->last = smaller(common->last, inside((split + 1) * parts.split_keys));
      // A part behind the keys would begin with the last tile, which is another's.
      if (common->first >= common->last) common->last = 0;
    }
    __syncthreads();
  }

  /// Which of the 32 keys from `key` on a row of the tile sees, a bit each.
  REGARD_DEVICE u32 word(i32 row_of_tile, i32 key) const {
    const RowKeyRange row = rows[row_of_tile];
    return (low_bits(row.y - key) & ~low_bits(row.x - key)) |
           (low_bits(row.w - key) & ~low_bits(row.z - key));
  }

 private:
  REGARD_DEVICE void join(const RowKeyRange& row) const {
    const bool window = row.x < row.y, sinks = row.z < row.w;
    atomicMax(&common->all_first, row.x);
    atomicMin(&common->all_last, row.y);
    if (window) atomicMin(&common->left_first, row.x);
    if (window || sinks) {
      atomicMin(&common->first, sinks ? row.z : row.x);
      atomicMax(&common->last, larger(window ? row.y : 0, sinks ? row.w : 0));
    }
    if (sinks) atomicMax(&common->sink_last, row.w);
  }
};

}  // namespace regard
