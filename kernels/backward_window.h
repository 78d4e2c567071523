// Which tiles of queries a block of keys needs by position, which one it starts with, and in which order
// blocks of keys add to a tile.
#pragma once

#include "kernels/window.h"

namespace regard {

/// The rows that may see a key of [begin, end), some of which may be past the last key.
REGARD_INLINE Range32 rows_that_see(const Window& window, i64 begin, i64 end) {
  return within(window.rows_that_see({begin, smaller(end, window.keys)}), static_cast<i32>(window.rows));
}

/// The blocks of keys that a tile of queries needs: [begin, end), and the first `sinks`.
struct KeyBlocks {
  i32 begin, end, sinks;

  REGARD_INLINE KeyBlocks(const Window& window, i32 first_row, i32 rows, i32 block_k) {
    const i64 last_row = smaller<i64>(first_row + rows, window.rows) - 1;
    const i32 sk = static_cast<i32>(window.keys);
    const Range of_last = window.keys_of(last_row);
    const Range32 keys = within({window.keys_of(first_row).begin, of_last.end}, sk);
    const auto up = [block_k](i32 key) { return (key + block_k - 1) / block_k; };
    begin = keys.empty() ? up(sk) : keys.begin / block_k;
    end = keys.empty() ? begin : up(keys.end);
    sinks = smaller(up(within(window.sinks_beside(of_last), sk).end), begin);
  }
  /// How many of these blocks come before the given one.
  REGARD_INLINE i32 before(i32 block, bool descending) const {
    const i32 rising = block < sinks ? block : sinks + block - begin;
    return descending ? sinks + (end - begin) - 1 - rising : rising;
  }
};

/// The tile that a block of keys starts with if every block handles all tiles of a head. It differs between
/// blocks, so that they do not all load the same rows and add to the same dQ at the same time.
REGARD_INLINE u32 start_tile(u32 key_block, u32 key_blocks, u32 tiles) {
  return tiles > 0 ? key_block * larger(tiles / key_blocks, 1u) % tiles : 0;
}

}  // namespace regard
