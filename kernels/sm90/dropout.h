// Dropout of the weights that a thread of a consumer has: one call of Philox serves its columns of 64 keys of
// a row.
#pragma once

#include "kernels/dropout.h"
#include "kernels/sm90/softmax.h"

namespace regard {

static_assert(!config::dropout || !(eight_bits || pack_gqa));

/// Which of a thread's weights of a tile are kept. It is drawn before the weights are packed, while products
/// run.
struct Kept {
  static constexpr i32 word_keys = 16, words = block_k / word_keys;
  u32 bytes[2][words];  // of a row; the highest bit of a byte says whether a weight is kept

  Kept() = default;
  /// `first_key`: of the tile, in the sequence; a multiple of 16.
  REGARD_DEVICE Kept(const philox::Random& random, const i32 (&rows)[2], i32 first_key, i32 keep) {
    constexpr i32 group = philox::group, of_group = group / word_keys;
    constexpr bool aligned = block_k % group == 0;
    constexpr i32 groups = (words + (aligned ? 0 : of_group - 1) + of_group - 1) / of_group;
    const u32 limits = static_cast<u32>(keep) * 0x01010101u;
    const i32 begin = aligned ? 0 : first_key % group / word_keys;
#pragma unroll
    for (i32 half = 0; half < 2; ++half) {
      u32 drawn[groups][of_group];
#pragma unroll
      for (i32 i = 0; i < groups; ++i)
        random.draw(drawn[i], static_cast<u32>(rows[half]),
                    (first_key / group + i) * group + static_cast<i32>(threadIdx.x % 4) * 2, MultiplyWide{});
      // Words are selected one by one: an index that is not constant would put all of them into local memory.
#pragma unroll
      for (i32 i = 0; i < words; ++i) {
        u32 word = drawn[i / of_group][i % of_group];
#pragma unroll
        for (i32 other = 1; !aligned && other < of_group; ++other)
          if (begin == other) word = drawn[(i + other) / of_group][(i + other) % of_group];
        bytes[half][i] = at_most(word, limits);
      }
    }
  }

  /// Sets the weights that are not kept to 0.
  REGARD_DEVICE void apply(ForwardP& p) const {
#pragma unroll
    for (i32 half = 0; half < 2; ++half)
#pragma unroll
      for (i32 eight = 0; eight < block_k / 8; ++eight) {
        const i32 pair = 2 * eight + half;
        p[pair / 4][pair % 4] &= spread_highest_bits(bytes[half][eight / 2], eight % 2 * 2);
      }
  }
};

}  // namespace regard
