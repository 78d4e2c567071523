// What queries see where position alone does not decide: by bits, and by ranges of keys.
//
// Scores are transposed, so a thread would read a word of every query of a tile to find its bits. Instead a
// warp reads each word once, and turns bits of rows into bits of threads by exchanges between its lanes.
#pragma once

#include "kernels/cuda/thread.h"
#include "kernels/sm90/backward_products.h"
#include "kernels/visible_bits.h"

namespace regard {

/// The masks of tiles, in shared memory: one for each stage of Q or, for a pair, which has no room for more,
/// a single one.
struct Sm90BackwardMasks {
  static constexpr i32 stages = layout.mask_stages;

  Barrier full[stages], empty[stages];
  u32 of_threads[stages][block_k / group_rows * 128][Seen::words];  // of those that make P of 64 keys each

  /// Called by one warp or more, before the barriers of Sm90BackwardShared are made visible.
  REGARD_DEVICE void init() {
    if (threadIdx.x != 0) return;
    for (i32 i = 0; i < stages; ++i) full[i].init(1), empty[i].init(block_k / group_rows * 4);
  }

  /// What the thread sees; its warpgroup is number `group` of those that make P.
  REGARD_DEVICE Seen take(i32 slot, u32 parity, i32 group) {
    full[slot].wait(parity);
    const u32(&of_thread)[Seen::words] = of_threads[slot][group * 128 + static_cast<i32>(threadIdx.x % 128)];
    Seen seen;
#pragma unroll
    for (i32 i = 0; i < Seen::words; ++i) seen.bits[i] = of_thread[i];
    arrive_by_warp(empty[slot]);
    return seen;
  }
};
static_assert(sizeof(Sm90BackwardShared) + sizeof(Sm90BackwardMasks) <= layout.static_bytes());

/// What a row of queries sees of a block of keys, from `first_key` on.
struct RowMask {
  static constexpr i32 count = block_k / wave;
  u32 words[count];

  /// Rows past the last one repeat it. All words are loaded before any of them is needed. `reads_bits`: some
  /// may be 0.
  REGARD_DEVICE RowMask(const BackwardArguments& a, const Sequence32& sequence, i32 head, i32 row,
                        i32 first_key, bool reads_bits) {
    row = smaller(row, sequence.sq - 1);
    if (reads_bits) {
      const u32* const bits =
          row_of<const u32>(a.bits, sequence.batch, head, row) + static_cast<u32>(first_key) / wave;
#pragma unroll
      for (i32 i = 0; i < count; ++i) words[i] = first_key + i * wave < sequence.sk ? bits[i] : 0;
    } else {
#pragma unroll
      for (i32 i = 0; i < count; ++i) words[i] = 0xffffffffu;
    }
    VisibleKeys32 visible = visible_keys(a, sequence, row);
    // Ranges are the caller's numbers: differences of those far below 0 could overflow.
    visible.window.end = larger(visible.window.end, 0);
    visible.sinks.end = larger(visible.sinks.end, 0);
#pragma unroll
    for (i32 i = 0; i < count; ++i) words[i] &= visible_bits(visible, first_key + i * wave);
  }
};

/// Exchanges a bit of the lane index with one of the bit index: bits whose indices differ by `distance`, of
/// lanes whose indices differ by `lanes`.
template <i32 lanes, i32 distance>
REGARD_DEVICE u32 exchange(u32 bits) {
  constexpr u32 low = 0xffffffffu / ((1u << distance) + 1);
  const u32 others = __shfl_xor_sync(whole_warp, bits, lanes);
  return lane() & lanes ? (bits & ~low) | (others >> distance & low)
                        : (bits & low) | (others & low) << distance;
}

/// The query, of 32, whose bits a lane reads.
REGARD_DEVICE i32 row_of_lane() {
  return lane() / 8 * 8 + lane() % 4 * 2 + lane() / 4 % 2;
}

/// By a warp: writes the masks of the block's tiles, 32 queries by 32 keys at a time.
REGARD_DEVICE void write_masks(const BackwardArguments& a, const Sm90BackwardWork& work,
                               Sm90BackwardMasks& masks) {
  const Sequence& s = work.sequence;
  const Sequence32 sequence{work.batch, static_cast<i32>(s.first_q), static_cast<i32>(s.first_k),
                            static_cast<i32>(s.sq), static_cast<i32>(s.sk)};
  const i32 of_lane = row_of_lane();
  Ring<Sm90BackwardMasks::stages> ring;
#pragma unroll 1
  for (QueryTileCursor tile(work); tile.exists(work); tile.advance(work), ring.advance()) {
    masks.empty[ring.slot].wait(ring.parity ^ 1);
    const bool reads_bits = a.bits.data && !tile.is_whole(work);
    const QueryTile of = tile.at(work);
#pragma unroll 1
    for (i32 part = 0; part < block_q / wave; ++part) {
      const RowMask row(a, sequence, of.head, of.first_row() + part * wave + of_lane, work.first_key,
                        reads_bits);
#pragma unroll
      for (i32 i = 0; i < RowMask::count; ++i) {
        // The lane index has bits 1, 2, 0, 3 and 4 of the query's. The last three are exchanged for the
        // lowest bits of the key's: then, as in a product's rows, a lane has two queries of every eight, and
        // two of every 16 keys, 8 apart.
        u32 bits = exchange<4, 1>(row.words[i]);
        bits = exchange<8, 2>(bits);
        bits = exchange<16, 4>(bits);
#pragma unroll
        for (i32 half = 0; half < 2; ++half)
          reinterpret_cast<u16*>(masks.of_threads[ring.slot][(2 * i + half) * wave + lane()])[part] =
              static_cast<u16>(bits >> 16 * half);
      }
    }
    __syncwarp();
    if (lane() == 0) masks.full[ring.slot].arrive();
  }
}

}  // namespace regard
