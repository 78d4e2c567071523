// Dropout of a vector of query rows: the mask of philox.h, one row per lane.
#pragma once

#include "kernels/cpu/attributes.h"
#include "kernels/cpu/head.h"
#include "kernels/philox.h"

namespace regard {

/// The low halves of 64-bit lanes, times b.
REGARD_INLINE Doublewords multiply_wide(Doublewords a, u32 b) {
  if constexpr (target::avx2) {
    Doublewords result;
    REGARD_X86_ASM("vpmuludq %2, %1, %0" : "=v"(result) : "v"(a), "v"(Doublewords{} + b));
    return result;
  } else if constexpr (target::neon) {
    Doublewords result;
    REGARD_ARM_ASM("xtn %0.2s, %1.2d\n\tumull %0.2d, %0.2s, %2.2s" : "=&w"(result) : "w"(a),
                   "w"(bits_as<Doublewords>(broadcast(b))));
    return result;
  } else {
    return (a & 0xffffffffu) * u64{b};
  }
}

/// A number for each row of a vector, in the form the unit multiplies: in the low halves of 64-bit lanes,
/// with even and odd rows in separate vectors. The high halves are ignored.
struct SplitWords {
  Doublewords even, odd;

  SplitWords() = default;
  explicit SplitWords(u32 value) : even(Doublewords{} + value), odd(even) {}
  explicit SplitWords(Words words) : even(bits_as<Doublewords>(words)), odd(even >> 32) {}
  SplitWords(Doublewords even_rows, Doublewords odd_rows) : even(even_rows), odd(odd_rows) {}

  Words together() const { return bits_as<Words>((even & 0xffffffffu) | odd << 32); }
  friend REGARD_INLINE SplitWords operator^(SplitWords a, SplitWords b) {
    return {a.even ^ b.even, a.odd ^ b.odd};
  }
  friend REGARD_INLINE SplitWords operator^(SplitWords a, u32 b) { return {a.even ^ b, a.odd ^ b}; }
};

struct SplitProduct {
  SplitWords low, high;
};
REGARD_INLINE SplitProduct multiply(SplitWords a, u32 b) {
  const Doublewords even = multiply_wide(a.even, b), odd = multiply_wide(a.odd, b);
  return {{even, odd}, {even >> 32, odd >> 32}};
}

/// The random generator of a head; unused if the kernel has no dropout.
REGARD_NOINLINE inline philox::Random random_of(const Head& head) {
  if constexpr (!config::dropout) return {};
  const Arguments& a = head.arguments;
  return philox::Random(a.seed, a.offset, head.batch, head.head, philox::WideMultiply{});
}

/// Pairs of neighbouring columns in a group.
constexpr i64 column_pairs = philox::group / 2;

/// The random bytes of a group of columns for the rows [first_row, first_row + lanes): one vector per pair
/// of columns, `stride` words apart. Each lane has the byte of the second column in its highest byte and
/// that of the first column in the next lower one.
REGARD_OPTIMIZE inline void draw_bytes(u32* to, i64 stride, const philox::Random& random, i64 first_row,
                                       i64 group) {
  const SplitWords rows(bits_as<Words>(lane_numbers() + static_cast<i32>(first_row)));
  for (int call = 0; call < philox::calls_per_group; ++call, to += stride) {
    SplitWords words[4];
    random.draw(words, rows, group * philox::group + 2 * call,
                [](SplitWords x, u32 y) { return multiply(x, y); });
    // Word i has the columns 16 i + 2 call, the next one, and those 8 further.
    static_assert(philox::byte_of(2) == 0 && philox::byte_of(8) == 2 && philox::byte_of(16) == 4);
    REGARD_UNROLL
    for (int i = 0; i < 4; ++i) {
      u32* const output = to + i * (column_pairs / 4) * stride;
      store(output, words[i].together() << 16);
      store(output + column_pairs / 8 * stride, words[i].together());
    }
  }
}

/// Lanes are -1 where the weights of two neighbouring columns, the first of which is even, are kept.
struct KeptPair {
  Ints first, second;
};
REGARD_INLINE KeptPair kept_pair(Words limit, Words bytes) {
  return {bytes << 8 <= limit, bytes <= limit};
}
/// The largest word whose highest byte belongs to a weight that is kept.
REGARD_INLINE Words kept_limit(const Arguments& a) {
  return broadcast(static_cast<u32>(a.dropout_keep) << 24 | 0xffffffu);
}

/// The mask of the rows [first_row, first_row + lanes). Unused when the kernel has no dropout.
class DropoutLanes {
 public:
  DropoutLanes(const Arguments& a, const philox::Random& random, i64 first_row)
      : random_(random), first_row_(first_row), limit_(kept_limit(a)) {}

  /// Which weights of `column`, which is even, and of the next one are kept. Columns may come in any order;
  /// neighbours are cheap.
  REGARD_INLINE KeptPair kept(u64 column) {
    if (const u64 group = column / philox::group; group != group_) {
      draw_bytes(bytes_[0], lanes, random_, first_row_, static_cast<i64>(group));
      group_ = group;
    }
    return kept_pair(limit_, load<Words>(bytes_[column % philox::group / 2]));
  }

 private:
  const philox::Random& random_;
  i64 first_row_;
  Words limit_;
  u64 group_ = ~u64{0};
  alignas(64) u32 bytes_[column_pairs][lanes];
};

/// The mask itself, 1 = kept, for tests: every column of the sequence, whether a row sees it or not.
inline void write_dropout_mask(const Head& head, const philox::Random& random, i64 first_row, i64 rows) {
  const Arguments& a = head.arguments;
  for (i64 lane = 0; lane < rows; lane += lanes) {
    DropoutLanes dropout(a, random, first_row + lane);
    for (i64 column = 0; column < head.sequence.sk; column += 2) {
      const KeptPair kept = dropout.kept(static_cast<u64>(column));
      for (i64 i = 0; i < smaller<i64>(lanes, rows - lane); ++i) {
        u8* const row =
            row_of<u8>(a.dropout_mask, head.batch, head.head, head.sequence.first_q + first_row + lane + i);
        row[column] = kept.first[i] ? 1 : 0;
        if (column + 1 < head.sequence.sk) row[column + 1] = kept.second[i] ? 1 : 0;
      }
    }
  }
}

}  // namespace regard
