// A tile of scores: its sizes, and which of its rows and keys a thread has.
#pragma once

#include "kernels/machine/fragment.h"

namespace regard {

constexpr i32 block_q = config::block_q, block_k = config::block_k, threads = config::warps * wave;

/// A wave has whole rows of the tile. Or `across` waves share rows: each has a part of the keys, and
/// together they have `across` times as many rows, so that they read that much less of K from shared memory.
constexpr i32 across = config::warps_across > 1 ? config::warps_across : 1;
constexpr i32 wave_rows = block_q / config::warps * across, row_tiles = wave_rows / Fragment::rows;
constexpr i32 wave_keys = block_k / across, key_tiles = wave_keys / Fragment::columns;
static_assert(row_tiles > 0 && row_tiles * Fragment::rows * config::warps == block_q * across);
static_assert(wave_keys % 16 == 0);

using Scores = Fragment[row_tiles][key_tiles];
using RowNumbers = float[row_tiles][Fragment::halves];

/// The first row of this thread's wave within the tile, and which part of the keys and columns the wave has.
REGARD_DEVICE i32 row_of_wave() {
  return thread() / wave / across * wave_rows;
}
REGARD_DEVICE i32 part_of_wave() {
  return across > 1 ? thread() / wave % across : 0;
}

/// This thread's first row within the tile, and the offsets of its other rows.
REGARD_DEVICE i32 row_in_tile() {
  return row_of_wave() + Fragment::row();
}
constexpr REGARD_INLINE i32 row_offset(i32 m, i32 half) {
  return m * Fragment::rows + half * Fragment::row_step;
}

/// The pairs of neighbours that a thread has of each eight columns.
constexpr i32 pairs_of_eight = Fragment::neighbours / 2;

/// The i-th of a pair of numbers of a thread.
REGARD_DEVICE float& number_of(Scores& s, i32 m, i32 half, i32 eight, i32 pair, i32 i) {
  constexpr i32 eights = Fragment::columns / 8;
  return s[m][eight / eights].x[half][eight % eights * Fragment::neighbours + 2 * pair + i];
}

/// function(m, half) for each of a thread's rows.
template <class Function>
REGARD_DEVICE void each_row(Function function) {
#pragma unroll
  for (i32 m = 0; m < row_tiles; ++m)
#pragma unroll
    for (i32 half = 0; half < Fragment::halves; ++half) function(m, half);
}

/// function(m, half, eight, pair, n, i) for each pair of a thread, which begins at x[half][i] of fragment
/// [m][n].
template <class Function>
REGARD_DEVICE void each_pair(Function function) {
  constexpr i32 eights = Fragment::columns / 8;
  each_row([&](i32 m, i32 half) {
#pragma unroll
    for (i32 eight = 0; eight < wave_keys / 8; ++eight)
#pragma unroll
      for (i32 pair = 0; pair < pairs_of_eight; ++pair)
        function(m, half, eight, pair, eight / eights, eight % eights * Fragment::neighbours + 2 * pair);
  });
}

}  // namespace regard
