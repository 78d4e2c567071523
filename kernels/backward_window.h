// Which tiles of queries have to do with a block of keys by position, with which it begins, and in which turn
// blocks of keys add to a tile.
#pragma once

#include "kernels/inline.h"
#include "kernels/sequence.h"

namespace regard {

/// What rows see by position alone: row i the keys from i + diagonal - left to i + diagonal + right, and the
/// first `sinks` ones as far as those are not beyond its right edge. Both ends rise with the row.
struct Window {
  i64 left, right, diagonal;
  i32 sinks, sq, sk;

  Window() = default;
  REGARD_INLINE Window(const Arguments& a, const Sequence& sequence)
      : diagonal(regard::diagonal(a, sequence)),
        sinks(0),
        sq(static_cast<i32>(sequence.sq)),
        sk(static_cast<i32>(sequence.sk)) {
    const i64 unbounded = sequence.sq + sequence.sk;
    left = right = unbounded;
    if (!a.positional) return;
    if (a.window_left >= 0) left = smaller(a.window_left, unbounded);
    if (a.window_right >= 0) right = smaller(a.window_right, unbounded);
    sinks = static_cast<i32>(smaller(a.sink_tokens, sequence.sk));
  }

  REGARD_INLINE i32 inside(i64 key, i32 end) const {
    return static_cast<i32>(larger<i64>(smaller<i64>(key, end), 0));
  }
  REGARD_INLINE i32 first_key(i32 row) const { return inside(row + diagonal - left, sk); }
  REGARD_INLINE i32 end_key(i32 row) const { return inside(row + diagonal + right + 1, sk); }
  REGARD_INLINE i32 end_sink(i32 row) const { return smaller(sinks, smaller(first_key(row), end_key(row))); }

  /// Rows that may see a key of [first, end).
  REGARD_INLINE i32 first_row(i32 first) const { return inside(first - right - diagonal, sq); }
  REGARD_INLINE i32 end_row(i32 first, i32 end) const { return first < sinks ? sq : end_row_at_left(end); }
  /// Behind the rows whose left edge lets them see a key before `end`.
  REGARD_INLINE i32 end_row_at_left(i32 end) const { return inside(end + left - diagonal, sq); }
};

/// The blocks of keys that have to do with a tile of queries: [first, end), and the first `sinks`.
struct KeyBlocks {
  i32 first, end, sinks;

  REGARD_INLINE KeyBlocks(const Window& window, i32 first_row, i32 rows, i32 block_k) {
    const i32 last_row = smaller(first_row + rows, window.sq) - 1;
    const i32 from = window.first_key(first_row), to = window.end_key(last_row);
    const auto up = [block_k](i32 key) { return (key + block_k - 1) / block_k; };
    first = from < to ? from / block_k : up(window.sk);
    end = from < to ? up(to) : first;
    sinks = smaller(up(window.end_sink(last_row)), first);
  }
  /// How many of them come before one of them.
  REGARD_INLINE i32 before(i32 block, bool descending) const {
    const i32 rising = block < sinks ? block : sinks + block - first;
    return descending ? sinks + (end - first) - 1 - rising : rising;
  }
};

/// Where every block of keys has all tiles of a head, the one that a block begins with: so that they do not
/// all load the same rows and add to the same dQ at a time.
REGARD_INLINE u32 start_tile(u32 key_block, u32 key_blocks, u32 tiles) {
  return tiles > 0 ? key_block * larger(tiles / key_blocks, 1u) % tiles : 0;
}

}  // namespace regard
