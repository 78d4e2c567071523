// P of a tile, the weights, as the left operand of its product with V.
#pragma once

#include "kernels/machine/matrix.h"
#include "kernels/machine/random.h"
#include "kernels/portable/tile.h"

namespace regard {

constexpr i32 depth_bytes = depth * operand_bytes;

/// The place of a lane's row of an operand that begins at this column.
template <i32 row_bytes>
REGARD_DEVICE u32 place_of(LdmatrixRow lane, i32 column = 0) {
  return place<row_bytes>(lane.row, lane.vector * 16 + column * operand_bytes);
}

/// Two neighbours of a row of sums, rounded.
REGARD_DEVICE u32 rounded(const float (&x)[2]) {
  return pair<operand>(x[0], x[1]);
}

/// x with 0 for each half whose byte of `kept`, `first` or the next one, has not its highest bit.
REGARD_DEVICE u32 of_kept(u32 x, u32 kept, i32 first) {
  return x & spread_highest_bits(kept, first);
}

/// P as a left operand: packed, dropped where weights are not kept, and shared with who multiplies it.
template <bool shared>
struct LeftP;

/// In the registers of the wave that made them: sums lie as the next product takes them.
template <>
struct LeftP<false> {
  Left left[row_tiles][block_k / depth];

  REGARD_DEVICE explicit LeftP(u32) {}

  REGARD_DEVICE void pack(const Scores& s) {
#pragma unroll
    for (i32 m = 0; m < row_tiles; ++m)
#pragma unroll
      for (i32 i = 0; i < block_k / depth * 4; ++i) left[m][i / 4][i % 4] = rounded(s[m][i / 2].x[i % 2]);
  }
  /// Two neighbours in each of the n-th and the next key tile, by the highest bits of four bytes.
  REGARD_DEVICE void keep(i32 m, i32 half, i32 n, u32 kept) {
#pragma unroll
    for (i32 i = 0; i < 2; ++i) {
      u32& x = left[m][n / 2][2 * i + half];
      x = of_kept(x, kept, 2 * i);
    }
  }
  REGARD_DEVICE void share() const {}

  /// Loads P of `depth` keys, the i-th such part of the tile.
  REGARD_DEVICE void load(Left& to, i32 m, i32 i) const {
#pragma unroll
    for (i32 matrix = 0; matrix < 4; ++matrix) to[matrix] = left[m][i][matrix];
  }
};

/// In shared memory, where waves share rows: each writes those of its keys and reads all, once the block has
/// met in between.
template <>
struct LeftP<true> {
  static constexpr i32 row_bytes = layout.row_of_p, part_bytes = wave_keys * operand_bytes;
  static_assert(part_bytes % portable::ForwardLayout::line == 0 || power_of_two_in(part_bytes) == part_bytes);

  u32 rows;  // of the wave
  u32 own[row_tiles][Fragment::halves][key_tiles];

  REGARD_DEVICE explicit LeftP(u32 of_block) : rows(of_block + row_of_wave() * row_bytes) {}

  REGARD_DEVICE void pack(const Scores& s) {
    each_row([&](i32 m, i32 half) {
#pragma unroll
      for (i32 n = 0; n < key_tiles; ++n) own[m][half][n] = rounded(s[m][n].x[half]);
    });
  }
  REGARD_DEVICE void keep(i32 m, i32 half, i32 n, u32 kept) {
#pragma unroll
    for (i32 i = 0; i < 2; ++i) {
      u32& x = own[m][half][n + i];
      x = of_kept(x, kept, 2 * i);
    }
  }
  REGARD_DEVICE void share() const {
    const i32 byte = part_of_wave() * part_bytes + Fragment::column() * operand_bytes;
    const u32 first = rows + place<row_bytes>(Fragment::row(), byte);
    each_row([&](i32 m, i32 half) {
#pragma unroll
      for (i32 n = 0; n < key_tiles; ++n)
        store_word(
            along<row_bytes>(first, n * Fragment::columns * operand_bytes) + row_offset(m, half) * row_bytes,
            own[m][half][n]);
    });
  }

  REGARD_DEVICE void load(Left& to, i32 m, i32 i) const {
    ldmatrix(to, along<row_bytes>(rows + place_of<row_bytes>(LdmatrixRow::of_left()), i * depth_bytes) +
                     m * Fragment::rows * row_bytes);
  }
};

}  // namespace regard
