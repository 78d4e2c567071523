// Dropout of a vector of query rows: the mask of philox.h, one row per lane.
#pragma once

#include "kernels/cpu/head.h"
#include "kernels/philox.h"

namespace regard {

struct WordsProduct {
  Words low, high;
};

/// The low halves of 64-bit lanes times b.
REGARD_INLINE Doublewords multiply_wide(Doublewords a, u32 b) {
  if constexpr (target::avx2) {
    Doublewords result;
    asm("vpmuludq %2, %1, %0" : "=v"(result) : "v"(a), "v"(Doublewords{} + b));
    return result;
  } else {
    return (a & 0xffffffffu) * u64{b};
  }
}

REGARD_INLINE WordsProduct multiply(Words a, u32 b) {
  const Doublewords even = multiply_wide(bits_as<Doublewords>(a), b);
  const Doublewords odd = multiply_wide(bits_as<Doublewords>(a) >> 32, b);
  constexpr u64 low_half = 0xffffffffu;
  return {bits_as<Words>((even & low_half) | (odd << 32)), bits_as<Words>((even >> 32) | (odd & ~low_half))};
}

/// The mask of the rows [first_row, first_row + lanes). Empty when the kernel has no dropout.
class DropoutLanes {
 public:
  DropoutLanes(const Head& head, i64 first_row) : head_(head), first_row_(static_cast<i32>(first_row)) {}

  /// Lanes of -1 where the weight of this column is kept. Columns may come in any order; neighbours are
  /// cheap.
  REGARD_INLINE Ints kept(i64 column) {
    if (column / philox::group != group_) draw(column / philox::group);
    const int byte = philox::byte_of(column);
    const Words word = words_[philox::call_of(column)][byte / 4] >> (8 * (byte % 4));
    return bits_as<Ints>(word & 255u) <= head_.arguments.dropout_keep;
  }

 private:
  void draw(i64 group) {
    const Arguments& a = head_.arguments;
    group_ = group;
    for (int call = 0; call < philox::calls_per_group; ++call) {
      Words(&words)[4] = words_[call];
      words[0] = broadcast(static_cast<u32>(a.offset));
      words[1] = broadcast(philox::counter_head(a.offset, head_.batch, a.hq, head_.head));
      words[2] = bits_as<Words>(lane_numbers() + first_row_);
      words[3] = broadcast(philox::counter_column(group * philox::group + 2 * call));
      philox::random_bytes(words, a.seed, [](Words x, u32 y) { return multiply(x, y); });
    }
  }

  const Head& head_;
  i32 first_row_;
  i64 group_ = -1;
  Words words_[philox::calls_per_group][4];
};

/// The mask itself, 1 = kept, for tests: every column of the sequence, whether a row sees it or not.
inline void write_dropout_mask(const Head& head, i64 first_row, i64 rows) {
  const Arguments& a = head.arguments;
  for (i64 lane = 0; lane < rows; lane += lanes) {
    DropoutLanes dropout(head, first_row + lane);
    for (i64 column = 0; column < head.sequence.sk; ++column) {
      const Ints kept = dropout.kept(column);
      for (i64 i = 0; i < smaller<i64>(lanes, rows - lane); ++i)
        row_of<u8>(a.dropout_mask, head.batch, head.head,
                   head.sequence.first_q + first_row + lane + i)[column] = kept[i] ? 1 : 0;
    }
  }
}

}  // namespace regard
