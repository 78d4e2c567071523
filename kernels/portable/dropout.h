// Dropout of the weights a thread holds: one call of Philox serves its columns of a group of 64 keys.
#pragma once

#include "kernels/dropout.h"
#include "kernels/head.h"
#include "kernels/portable/score_tile.h"

namespace regard {

/// Weights that are not kept become 0, after they have been packed into fewer registers. `key` is the first
/// of the wave.
template <class P>
REGARD_DEVICE void drop(P& p, const philox::Random& random, i32 keep, i32 first_row, i32 key) {
  constexpr i32 group = philox::group, eights = smaller(wave_keys, group) / 8;
  static_assert(wave_keys % group == 0 || group % wave_keys == 0);
  static_assert(eights % 2 == 0, "four bytes serve two groups of eight columns");
  const u32 limits = static_cast<u32>(keep) * 0x01010101u;
  const i32 first_of_thread = first_row + row_in_tile(), first_column = key + Fragment::column();
  each_row([&](i32 m, i32 half) {
#pragma unroll
    for (i32 first = 0; first < wave_keys / 8; first += eights)
#pragma unroll
      for (i32 pair = 0; pair < pairs_of_eight; ++pair) {
        const i32 column = first_column + first * 8 + 2 * pair;
        u32 words[4];
        random.draw(words, static_cast<u32>(first_of_thread + row_offset(m, half)), column, MultiplyWide{});
        // A tile that is a part of a group uses a part of the words. They are selected one by one: an index
        // that is not constant would put all words into local memory.
        const i32 part = column % group / wave_keys;
        u32 own[eights / 2];
#pragma unroll
        for (i32 i = 0; i < eights / 2; ++i) {
          own[i] = words[i];
#pragma unroll
          for (i32 other = 1; other < group / wave_keys; ++other)
            if (part == other) own[i] = words[other * (eights / 2) + i];
        }
#pragma unroll
        for (i32 i = 0; i < eights; i += 2) p.keep(m, half, first + i, pair, at_most(own[i / 2], limits));
      }
  });
}

/// Stores the mask itself, 1 = kept, for tests: every column of the sequence, whether a row sees it or not.
REGARD_DEVICE void write_dropout_mask(const Head& head, const philox::Random& random, i32 first_row,
                                      i32 rows) {
  const Arguments& a = head.arguments;
  const i32 sk = static_cast<i32>(head.sequence.sk);
  u8* to = row_of<u8>(a.dropout_mask, head.batch, head.head, head.sequence.first_q + first_row);
#pragma unroll 1
  for (i32 row = first_row; row < first_row + rows; ++row, to += a.dropout_mask.row) {
    // One thread has the columns of one call: 16 of a group.
#pragma unroll 1
    for (i32 pair = 2 * thread();; pair += 2 * threads) {
      const i32 first = pair / 8 * static_cast<i32>(philox::group) + pair % 8;
      if (first >= sk) break;
      u32 words[4];
      random.draw(words, static_cast<u32>(row), first, MultiplyWide{});
#pragma unroll 1
      for (i32 byte = 0; byte < 16; ++byte) {
        const i32 column = first + byte / 2 * 8 + byte % 2;
        if (column < sk) to[column] = static_cast<i32>(words[0] & 255u) <= a.dropout_keep;
        // Moves the next byte to the front, as registers cannot be indexed.
#pragma unroll
        for (i32 i = 0; i < 4; ++i) words[i] = words[i] >> 8 | (i < 3 ? words[i + 1] << 24 : 0);
      }
    }
  }
}

}  // namespace regard
