// The dropout mask: a pure function of (seed, offset, batch, head, row, column), the same for every kernel,
// target, tile shape and pass, and for the oracle. This file is its only definition.
//
// Philox4x32 (7 rounds) makes 16 random bytes from a key and a counter. The bytes for the seed as the key
// and (offset, batch, head) as the counter become the key and half of the counter of all further calls for
// this head; the other half of the counter is the row and the columns. One call serves the 16 columns of a
// group of 64 that share (column % 8) / 2: the columns that one thread of a matrix unit holds, so that no
// kernel has to shuffle.
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

struct HighLow {
  u32 low, high;
};

/// The two halves of a product. A GPU's own functions may have a faster way.
struct WideMultiply {
  REGARD_INLINE HighLow operator()(u32 a, u32 b) const {
    const u64 product = u64{a} * b;
    return {static_cast<u32>(product), static_cast<u32>(product >> 32)};
  }
};

/// The 16 bytes, as little-endian words, replace the counter. `Word` is u32 or a vector of them, which
/// `multiply` multiplies by one u32.
template <class Word, class Multiplier>
REGARD_INLINE void random_bytes(Word (&counter)[4], u64 both_keys, Multiplier multiply) {
  u32 key[2] = {static_cast<u32>(both_keys), static_cast<u32>(both_keys >> 32)};
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

/// The generator of the random bytes of one head of one sequence. Philox maps counters one to one, so that
/// with the same seed no two heads, sequences or offsets have the same key and counter.
struct Random {
  u64 key;
  u32 counter[2];  // its words 0 and 1

  Random() = default;
  template <class Multiplier>
  REGARD_INLINE Random(u64 seed, u64 offset, i64 batch, i64 head, Multiplier multiply) {
    u32 words[4] = {static_cast<u32>(offset), static_cast<u32>(offset >> 32), static_cast<u32>(batch),
                    static_cast<u32>(head)};
    random_bytes(words, seed, multiply);
    key = words[0] | u64{words[1]} << 32;
    counter[0] = words[2];
    counter[1] = words[3];
  }

  /// The 16 bytes of a row for the columns of the group with the same (column % 8) / 2; if a `Word` is a
  /// vector of rows, those of each.
  template <class Word, class Multiplier>
  REGARD_INLINE void draw(Word (&words)[4], Word row, i64 column, Multiplier multiply) const {
    words[0] = Word(counter[0]);
    words[1] = Word(counter[1]);
    words[2] = row;
    words[3] = Word(static_cast<u32>(calls_per_group * (column / group) + call_of(column)));
    random_bytes(words, key, multiply);
  }

  /// The byte of one element: it is kept iff the byte is at most `keep`, floor((1 - p) * 255).
  REGARD_INLINE u8 byte(i64 row, i64 column) const {
    u32 words[4];
    draw(words, static_cast<u32>(row), column, WideMultiply{});
    const int byte = byte_of(column);
    return static_cast<u8>(words[byte / 4] >> (8 * (byte % 4)));
  }
};

}  // namespace regard::philox
