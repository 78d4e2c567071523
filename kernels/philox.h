// The dropout mask: a pure function of (seed, offset, batch, head, row, column), the same for every kernel,
// target, tile shape and pass, and for the oracle. This file is its only definition.
//
// One call of Philox4x32 (7 rounds) gives 16 random bytes. They serve the 16 columns of a group of 64 that
// share (column % 8) / 2: the columns that one thread of a matrix unit holds, so that no kernel has to
// shuffle.
#pragma once

#include "kernels/arguments.h"
#include "kernels/inline.h"

namespace regard::philox {

constexpr i64 group = 64;                            // columns that four calls serve
[[maybe_unused]] constexpr int calls_per_group = 4;  // 16 columns each

/// Which of the group's calls serves a column, and which of its 16 bytes.
constexpr REGARD_INLINE int call_of(i64 column) {
  return static_cast<int>(column % 8 / 2);
}
constexpr REGARD_INLINE int byte_of(i64 column) {
  return static_cast<int>(column % group / 8 * 2 + column % 2);
}

struct Product {
  u32 low, high;
};

REGARD_INLINE Product multiply(u32 a, u32 b) {
  const u64 product = u64{a} * b;
  return {static_cast<u32>(product), static_cast<u32>(product >> 32)};
}

/// The 16 bytes, as little-endian words, in place of the counter. `Word` is u32 or many of them;
/// `multiply` gives the two halves of its products with one u32.
template <class Word, class Multiply>
REGARD_INLINE void random_bytes(Word (&counter)[4], u64 seed, Multiply multiply) {
  u32 key[2] = {static_cast<u32>(seed), static_cast<u32>(seed >> 32)};
  for (int round = 0; round < 7; ++round) {
    const auto a = multiply(counter[0], 0xD2511F53u);
    const auto b = multiply(counter[2], 0xCD9E8D57u);
    counter[0] = b.high ^ counter[1] ^ key[0];
    counter[1] = b.low;
    counter[2] = a.high ^ counter[3] ^ key[1];
    counter[3] = a.low;
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
}

/// Word 1 of the counter; word 0 is the offset's low half, word 2 the row.
REGARD_INLINE u32 counter_head(u64 offset, i64 batch, i64 heads, i64 head) {
  return static_cast<u32>(offset >> 32) ^ static_cast<u32>(batch * heads + head);
}
/// Word 3 of the counter.
REGARD_INLINE u32 counter_column(i64 column) {
  return static_cast<u32>(4 * (column / group) + call_of(column));
}

/// The byte of one element: it is kept iff the byte is at most `keep`, floor((1 - p) * 255).
REGARD_INLINE u8 random_byte(u64 seed, u64 offset, i64 batch, i64 heads, i64 head, i64 row, i64 column) {
  u32 words[4] = {static_cast<u32>(offset), counter_head(offset, batch, heads, head), static_cast<u32>(row),
                  counter_column(column)};
  random_bytes(words, seed, multiply);
  const int byte = byte_of(column);
  return static_cast<u8>(words[byte / 4] >> (8 * (byte % 4)));
}

}  // namespace regard::philox
