// The packed bits of a mask, as a thread that has some scores of two rows reads them.
#pragma once

#include "kernels/machine/number.h"
#include "kernels/sm90/work.h"

namespace regard {

constexpr i32 word_keys = 32;

/// The words of a row of one head. Rows past the last one repeat it.
REGARD_DEVICE const u32* words_of_row(const Arguments& a, const Sequence32& sequence, i32 head, i32 row) {
  return row_of<const u32>(a.bits, sequence.batch, head, min(row, sequence.sq - 1));
}

/// Of two rows, the bits of one tile: each lane of a quad has one word of each row.
class MaskBits {
 public:
  MaskBits() = default;
  REGARD_DEVICE MaskBits(const u32* const (&rows)[2], i32 keys) : rows_{rows[0], rows[1]}, keys_(keys) {}

  /// Loads those of the tile at `key`, which are used later. Past the last key they are 0.
  REGARD_DEVICE void load(i32 key) {
    const i32 word = key / word_keys + static_cast<i32>(threadIdx.x % quad);
    const bool exists = word * word_keys < keys_;
#pragma unroll
    for (i32 half = 0; half < 2; ++half) words_[half] = exists ? rows_[half][word] : 0;
  }

  /// One bit for each score that this thread has of a row in that tile: two of every 8 keys. By whole warps.
  REGARD_DEVICE u32 scores_of_row(i32 half, i32 key) const {
    u32 seen = 0;
#pragma unroll
    for (i32 i = 0; i * word_keys < block_k; ++i) {
      u32 word = word_of_lane(half, i);
      if constexpr (block_k % word_keys != 0)  // the tile may begin within a word
        word = (u64{word_of_lane(half, i + 1)} << word_keys | word) >> key % word_keys;
      seen |= pairs(word >> threadIdx.x % quad * 2) << 8 * i;
    }
    return seen & low_bits(block_k / quad);
  }

 private:
  static constexpr i32 quad = 4;
  static_assert(block_k % 16 == 0 && (block_k + block_k % word_keys) <= quad * word_keys);

  /// The word of a lane of the quad.
  REGARD_DEVICE u32 word_of_lane(i32 half, i32 lane) const {
    return __shfl_sync(whole_warp, words_[half], threadIdx.x % wave / quad * quad + lane);
  }
  /// The first two bits of each byte, side by side: the product moves each pair to its place in the highest
  /// byte.
  REGARD_DEVICE static u32 pairs(u32 word) { return (word & 0x03030303) * 0x01041040 >> 24; }

  const u32* rows_[2];
  i32 keys_;
  u32 words_[2];
};

}  // namespace regard
