// P of a tile, the weights, as the left operand of its product with V.
#pragma once

#include "kernels/machine/random.h"
#include "kernels/portable/tile.h"

namespace regard {

/// Two neighbours of a row of sums, rounded.
REGARD_DEVICE u32 rounded(const float (&x)[2]) {
  return pair<operand>(x[0], x[1]);
}

/// x with each half set to 0 unless its byte of `kept`, `first` or the next one, has its highest bit set.
REGARD_DEVICE u32 of_kept(u32 x, u32 kept, i32 first) {
  return x & spread_highest_bits(kept, first);
}

/// P as a left operand: packed, with dropped weights removed, and shared with the waves that multiply it.
template <bool by_matrix, bool shared>
struct LeftP;

using P = LeftP<operand != DType::fp32, (across > 1)>;

/// In the registers of the wave that made them: the sums have the layout that the next product takes.
template <>
struct LeftP<true, false> {
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
  REGARD_DEVICE const LeftP& operand_a() const { return *this; }

  /// The i-th `depth` of the tile's keys, of the m-th row tile.
  REGARD_DEVICE void load(Left& to, i32 m, i32 i) const {
#pragma unroll
    for (i32 matrix = 0; matrix < 4; ++matrix) to[matrix] = left[m][i][matrix];
  }
};

/// In shared memory, if waves share rows: each writes the weights of its keys and reads all of them, with a
/// block barrier in between.
template <>
struct LeftP<true, true> {
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
    const u32 first = rows + shared_offset<row_bytes>(Fragment::row(), byte);
    each_row([&](i32 m, i32 half) {
#pragma unroll
      for (i32 n = 0; n < key_tiles; ++n)
        store_word(
            along<row_bytes>(first, n * Fragment::columns * operand_bytes) + row_offset(m, half) * row_bytes,
            own[m][half][n]);
    });
  }

  REGARD_DEVICE Multiply::A<RowsP> operand_a() const { return {rows, 0}; }
};

/// In fp32, as they are. The weight of a key comes from the lane that has it.
template <>
struct LeftP<false, false> {
  static constexpr i32 numbers = 1;

  Scores of;

  REGARD_DEVICE explicit LeftP(u32) {}

  REGARD_DEVICE void pack(const Scores& s) {
#pragma unroll
    for (i32 m = 0; m < row_tiles; ++m)
#pragma unroll
      for (i32 n = 0; n < key_tiles; ++n) of[m][n] = s[m][n];
  }
  REGARD_DEVICE void keep(i32 m, i32 half, i32 n, u32 kept) {
#pragma unroll
    for (i32 i = 0; i < 4; ++i)
      if ((kept >> (8 * i + 7) & 1) == 0) of[m][n + i / 2].x[half][i % 2] = 0;
  }
  REGARD_DEVICE void share() const {}
  REGARD_DEVICE const LeftP& operand_a() const { return *this; }

  /// A key's weights.
  struct Step {
    const LeftP& p;
    i32 n, i, from;

    REGARD_DEVICE void load(float (&x)[numbers], i32 m, i32 half) const {
      x[0] = from_lane(p.of[m][n].x[half][i], from);
    }
  };
  /// function(key, step) for each of them. An iteration of the loop takes the keys of one lane of each
  /// fragment.
  template <i32 length, class Function>
  REGARD_DEVICE void each_step(Function function) const {
    static_assert(length == block_k);
#pragma unroll 1
    for (i32 column = 0; column < Fragment::columns; column += Fragment::width) {
      const i32 from = Fragment::lane_of(column);
#pragma unroll
      for (i32 n = 0; n < key_tiles; ++n)
#pragma unroll
        for (i32 i = 0; i < Fragment::width; ++i)
          function(n * Fragment::columns + column + i, Step{*this, n, i, from});
    }
  }
};

}  // namespace regard
