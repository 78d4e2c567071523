// The order in which blocks of query rows are processed: the longest first, and next to each other those
// that share K and V. Each block of threads asks for increasing indices into this order.
#pragma once

#include "kernels/sm90/ragged.h"
#include "kernels/sm90/work.h"

namespace regard {

REGARD_DEVICE u32 blocks_of_rows(i32 rows) {
  return static_cast<u32>(rows + cluster_rows - 1) / cluster_rows;
}

/// The sequences by decreasing length, so that short ones are left for the end. Computed by the whole block,
/// if there are not too many to compare.
class Ranking {
 public:
  static constexpr i32 most = cluster > 1 ? 1 : config::bits ? 64 : 256;

  REGARD_DEVICE void make(const Arguments& a) {
    const i32 sequences = static_cast<i32>(a.b);
#pragma unroll 1
    for (i32 i = threadIdx.x; i < sequences; i += blockDim.x) keys_[i] = sequence_of<i32, caches>(a, i).sk;
    __syncthreads();
#pragma unroll 1
    for (i32 i = threadIdx.x; i < sequences; i += blockDim.x) {
      const i32 keys = keys_[i];
      i32 rank = 0;  // sequences of equal length keep their order
#pragma unroll 1
      for (i32 j = 0; j < sequences; ++j) rank += keys_[j] > keys - (j < i);
      order_[rank] = static_cast<u8>(i);
    }
  }
  REGARD_DEVICE i32 operator[](i32 rank) const { return order_[rank]; }

 private:
  i32 keys_[most];
  u8 order_[most];
};

/// Used by a whole warp.
class Order {
 public:
  REGARD_DEVICE Order(const Sm90ForwardArguments& a, const Ranking& ranking) : a_(a), ranking_(ranking) {}

  /// How many blocks there are; not stored, as this warp has few registers.
  REGARD_DEVICE u32 count() const {
    const u32 heads = heads_with_blocks(), sequences = static_cast<u32>(a_.b);
    if (!ragged(a_)) return blocks_of_head(whole_sequence<i32>(a_, 0)) * sequences * heads;
    u32 blocks = 0;
    for (u32 i = threadIdx.x; i < sequences; i += wave)
      blocks += blocks_of_head(sequence_of<i32, caches>(a_, i));
    return __reduce_add_sync(whole_warp, blocks) * heads;
  }

  /// `index` < count(), not less than the previous one; `member` selects one of the blocks of rows that a
  /// cluster takes.
  REGARD_DEVICE Sm90ForwardWork at(u32 index, u32 member) {
    const u32 heads = heads_with_blocks();
    u32 batch_heads = heads;
    Sequence32 sequence = whole_sequence<i32>(a_, 0);
    if (ragged(a_)) {
      sequence = find(index);
      index -= before_;
    } else {
      batch_heads *= static_cast<u32>(a_.b);
    }
    const auto part = KeyPart<split_kv>::out_of(index, a_, sequence.sk);
    const Position position = position_of(index, member, rows(sequence), batch_heads);
    if (!ragged(a_)) sequence.batch = static_cast<i32>(position.pair / heads);
    const i32 head = static_cast<i32>(position.pair % heads);
    Sm90ForwardWork work{part, sequence, head, position.first_row};
    if constexpr (pack_gqa)
      work.head = head * heads_per_kv(a_) + (position.first_row >> a_.row_bits), work.first_row = 0;
    if constexpr (split_kv) find_part(work, a_);
    return work;
  }

 private:
  /// Query heads of a head of K and V.
  REGARD_DEVICE static i32 heads_per_kv(const Arguments& a) {
    return static_cast<i32>(a.hq) / static_cast<i32>(a.hk);
  }
  /// Heads that have separate blocks, and the rows of each.
  REGARD_DEVICE u32 heads_with_blocks() const { return static_cast<u32>(pack_gqa ? a_.hk : a_.hq); }
  REGARD_DEVICE i32 rows(const Sequence32& s) const {
    return pack_gqa && s.sq > 0 ? heads_per_kv(a_) << a_.row_bits : s.sq;
  }
  /// Blocks of rows of one of those heads, each once for every part of the keys.
  REGARD_DEVICE u32 blocks_of_head(const Sequence32& s) const {
    return blocks_of_rows(rows(s)) * KeyPart<split_kv>::count(a_, s.sk);
  }

  struct Position {
    u32 pair;
    i32 first_row;
  };

  /// Among the blocks of `batch_heads` that have `rows` each: a group of pairs goes through its rows
  /// together, those from `before_last` on as one group. With most masks the last rows see the most keys, so
  /// they come first.
  REGARD_DEVICE Position position_of(u32 index, u32 member, i32 rows, u32 batch_heads) const {
    const u32 blocks = blocks_of_rows(rows), group = static_cast<u32>(a_.side_by_side);
    const u32 before_last = static_cast<u32>(a_.before_last),
              first = min(index / (blocks * group) * group, before_last),
              size = first < before_last ? min(group, batch_heads - first) : batch_heads - first,
              rest = index - first * blocks;
    const u32 block = rest / size;
    const i32 first_row =
        static_cast<i32>((windowed || masked_by_row ? blocks - 1 - block : block) * cluster_rows);
    return {first + rest % size, first_row + static_cast<i32>(member) * block_q};
  }

  /// The sequence that contains `index`: a warp examines as many at a time as it has threads.
  REGARD_DEVICE Sequence32 find(u32 index) {
    const i32 sequences = static_cast<i32>(a_.b), lane = threadIdx.x;
#pragma unroll 1
    while (true) {
      const i32 rank = rank_ + lane;
      Sequence32 mine{};
      if (rank < sequences)
        mine = sequence_of<i32, caches>(a_, sequences <= Ranking::most ? ranking_[rank] : rank);
      const u32 blocks = blocks_of_head(mine) * heads_with_blocks();
      u32 end = blocks;
#pragma unroll
      for (i32 step = 1; step < wave; step *= 2) {
        const u32 other = __shfl_up_sync(whole_warp, end, step);
        if (lane >= step) end += other;
      }
      const u32 holds = __ballot_sync(whole_warp, index - before_ < end);
      if (holds == 0) {
        rank_ += wave;
        before_ += __shfl_sync(whole_warp, end, wave - 1);
        continue;
      }
      const i32 found = __ffs(holds) - 1;
      rank_ += found;
      before_ += __shfl_sync(whole_warp, end - blocks, found);
      return {__shfl_sync(whole_warp, mine.batch, found), __shfl_sync(whole_warp, mine.first_q, found),
              __shfl_sync(whole_warp, mine.first_k, found), __shfl_sync(whole_warp, mine.sq, found),
              __shfl_sync(whole_warp, mine.sk, found)};
    }
  }

  const Sm90ForwardArguments& a_;
  const Ranking& ranking_;
  i32 rank_ = 0;    // of the sequence that contained the last index
  u32 before_ = 0;  // indices of the sequences before that one
};

}  // namespace regard
