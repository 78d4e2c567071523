// Sets the scores of keys that their row does not see to -infinity: by position and by the packed bits.
#pragma once

#include "kernels/head.h"
#include "kernels/portable/key_ranges.h"

namespace regard {

/// The packed bits of a block of rows of one head.
struct Bits {
  const u32* words;  // of the first row
  i64 pitch;         // words from one row to the next
  i32 rows, keys;

  Bits() = default;
  REGARD_DEVICE Bits(const Head& head, i32 first_row)
      : words(row_of<const u32>(head.arguments.bits, head.batch, head.head, first_row)),
        pitch(head.arguments.bits.row),
        rows(static_cast<i32>(smaller<i64>(head.sequence.sq - first_row, block_q))),
        keys(static_cast<i32>(head.sequence.sk)) {}

  /// The bits of 32 keys; 0 past the last key. Rows past the last one repeat it.
  REGARD_DEVICE u32 word(i32 row, i32 key) const {
    return key < keys ? global(words)[smaller(row, rows - 1) * pitch + key / word_keys] : 0;
  }

  /// Whether any row sees a key of the tile at `key`; by the whole block of threads.
  REGARD_DEVICE bool any(i32 key) const {
    constexpr i32 of_row = block_k / word_keys;
    u32 found = 0;
#pragma unroll 1
    for (i32 i = thread(); i < block_q * of_row; i += threads)
      found |= word(i / of_row, key + i % of_row * word_keys);
    return any_in_block(found != 0);
  }
};

/// Masks scores. Called after the bias is added, so that the score stays masked whatever the bias is.
REGARD_DEVICE void mask(Scores& s, const RowKeyRanges& visible, const Bits& bits, i32 key, i32 sk) {
  constexpr i32 tiles = smaller(word_keys, wave_keys) / Fragment::columns;
  static_assert(key_tiles % tiles == 0);
  const i32 first_row = row_in_tile(), first_column = Fragment::column();
#pragma unroll
  for (i32 first = 0; first < key_tiles; first += tiles, key += word_keys) {
    const u32 of_all = low_bits(sk - key);
    each_row([&](i32 m, i32 half) {
      const i32 row = first_row + row_offset(m, half);
      u32 word = by_position ? visible.word(row, key) : of_all;
      if constexpr (config::bits)
        word &= bits.word(row, key) >> (wave_keys < word_keys ? key % word_keys : 0);
      word >>= first_column;
#pragma unroll
      for (i32 n = 0; n < tiles; ++n)
#pragma unroll
        for (i32 i = 0; i < Fragment::width; ++i) {
          float& x = s[m][first + n].x[half][i];
          x = word >> (n * Fragment::columns + Fragment::column_offset(i)) & 1 ? x : -infinity;
        }
    });
  }
}

}  // namespace regard
