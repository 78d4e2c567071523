// P of a tile, the weights, as the left operand of its product with V.
#pragma once

#include "kernels/machine/memory.h"
#include "kernels/machine/random.h"
#include "kernels/portable/tile.h"

namespace regard {

/// x with each half set to 0 unless its byte of `kept`, `first` or the next one, has its highest bit set.
REGARD_DEVICE u32 of_kept(u32 x, u32 kept, i32 first) {
  return x & spread_highest_bits(kept, first);
}

/// A NaN may become any number here: the sum of its row is NaN, and so is what is divided by it.
REGARD_DEVICE u32 rounded(float x, float y) {
  return pair_of_numbers<operand>(x, y);
}

/// P as a left operand: packed, with dropped weights removed, and shared with the waves that multiply it.
template <bool by_matrix, bool shared>
struct LeftP;

using P = LeftP<operand != DType::fp32, (across > 1)>;

/// In the registers of the wave that made them: the sums have the layout that the next product takes.
template <>
struct LeftP<true, false> {
  static constexpr i32 most_steps = all_steps;  // registers cannot be indexed

  u32 packed[row_tiles][block_k / depth][4];

  REGARD_DEVICE explicit LeftP(u32) {}

  REGARD_DEVICE void pack(const Scores& s) {
    each_pair([&](i32 m, i32 half, i32 eight, i32 pair, i32 n, i32 i) {
      word(m, half, eight, pair) = rounded(s[m][n].x[half][i], s[m][n].x[half][i + 1]);
    });
  }
  /// A pair of neighbours in each of two groups of eight keys, by the highest bits of four bytes.
  REGARD_DEVICE void keep(i32 m, i32 half, i32 eight, i32 pair, u32 kept) {
#pragma unroll
    for (i32 i = 0; i < 2; ++i) {
      u32& x = word(m, half, eight + i, pair);
      x = of_kept(x, kept, 2 * i);
    }
  }
  REGARD_DEVICE void share() const {}
  REGARD_DEVICE const LeftP& operand_a() const { return *this; }

  /// The i-th `depth` of the tile's keys, of all row tiles.
  REGARD_DEVICE void load(Left (&to)[row_tiles], i32 i) const {
#pragma unroll
    for (i32 m = 0; m < row_tiles; ++m) load_packed(to[m], packed[m][i]);
  }

 private:
  /// A thread has either two halves or two pairs of each eight.
  REGARD_DEVICE u32& word(i32 m, i32 half, i32 eight, i32 pair) {
    static_assert(depth == 16 && Fragment::halves * pairs_of_eight == 2);
    return packed[m][eight / 2][2 * (eight % 2) + half + pair];
  }
};

/// In shared memory, if waves share rows: each writes the weights of its keys and reads all of them, with a
/// block barrier in between.
template <>
struct LeftP<true, true> {
  static constexpr i32 row_bytes = layout.row_of_p, part_bytes = wave_keys * operand_bytes;
  static_assert(part_bytes % portable::ForwardLayout::line == 0 || power_of_two_in(part_bytes) == part_bytes);

  u32 rows;  // of the wave
  u32 own[row_tiles][Fragment::halves][wave_keys / 8][pairs_of_eight];

  REGARD_DEVICE explicit LeftP(u32 of_block) : rows(of_block + row_of_wave() * row_bytes) {}

  REGARD_DEVICE void pack(const Scores& s) {
    each_pair([&](i32 m, i32 half, i32 eight, i32 pair, i32 n, i32 i) {
      own[m][half][eight][pair] = rounded(s[m][n].x[half][i], s[m][n].x[half][i + 1]);
    });
  }
  REGARD_DEVICE void keep(i32 m, i32 half, i32 eight, i32 pair, u32 kept) {
#pragma unroll
    for (i32 i = 0; i < 2; ++i) {
      u32& x = own[m][half][eight + i][pair];
      x = of_kept(x, kept, 2 * i);
    }
  }
  REGARD_DEVICE void share() const {
    const i32 byte = part_of_wave() * part_bytes + Fragment::column() * operand_bytes;
    const u32 first = rows + shared_offset<row_bytes>(Fragment::row(), byte);
    each_row([&](i32 m, i32 half) {
#pragma unroll
      for (i32 eight = 0; eight < wave_keys / 8; ++eight)
        store_words(along<row_bytes>(first, eight * 8 * operand_bytes) + row_offset(m, half) * row_bytes,
                    own[m][half][eight]);
    });
  }

  REGARD_DEVICE WaveP operand_a() const { return {rows, 0}; }
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
  REGARD_DEVICE void keep(i32 m, i32 half, i32 eight, i32 pair, u32 kept) {
#pragma unroll
    for (i32 i = 0; i < 4; ++i)
      if ((kept >> (8 * i + 7) & 1) == 0) number_of(of, m, half, eight + i / 2, pair, i % 2) = 0;
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
    for (i32 lane_of_row = 0; lane_of_row < Fragment::columns / Fragment::width; ++lane_of_row) {
      const i32 from = Fragment::lane_of(lane_of_row), column = lane_of_row * Fragment::neighbours;
#pragma unroll
      for (i32 n = 0; n < key_tiles; ++n)
#pragma unroll
        for (i32 i = 0; i < Fragment::width; ++i)
          function(n * Fragment::columns + column + Fragment::column_offset(i), Step{*this, n, i, from});
    }
  }
};

}  // namespace regard
