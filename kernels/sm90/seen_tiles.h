// What the bits of a mask show a block of work of each tile of keys: nothing, some or all.
#pragma once

#include "kernels/sm90/mask_bits.h"
#include "kernels/tile_map.h"

namespace regard {

static_assert(!(masked_by_row && eight_bits));

/// What a block's rows see of a tile.
struct SeenOfTile {
  bool any, all;
};

/// Reads the map of the bits, by a single thread.
REGARD_DEVICE SeenOfTile ask_map(const Sm90ForwardArguments& a, const Sm90ForwardWork& work, i32 end_head,
                                 i32 key) {
  const i32 rows = pack_gqa ? 1 << a.row_bits : block_q, end = min(key + block_k, work.sequence.sk),
            end_row = min(work.first_row + rows, work.sequence.sq);
  const bool share = !pack_gqa || a.bits.head == 0;
  end_head = share ? work.head + 1 : min(end_head, work.head + (block_q >> a.row_bits));
  SeenOfTile seen{false, true};
#pragma unroll 1
  for (i32 head = work.head; head < end_head; ++head) {
    const TileLines lines = tile_map_of(a, work.sequence.batch, head).of_rows(work.first_row, end_row);
    seen.any |= lines.first_seen(key, end) < end;
    seen.all &= lines.whole(key, end);
  }
  return seen;
}

/// Reads the bits of a tile, by a whole warp: four lanes for each row. `end_head`: past the last one of the
/// block.
REGARD_DEVICE SeenOfTile ask_bits(const Sm90ForwardArguments& a, const Sm90ForwardWork& work, i32 end_head,
                                  i32 key) {
  const i32 word = key / word_keys + static_cast<i32>(threadIdx.x % 4), first = word * word_keys - key;
  const u32 of_tile = low_bits(block_k - first) & ~low_bits(-first);
  const bool exists = word * word_keys < work.sequence.sk;
  u32 any = 0, all = ~0u;
#pragma unroll 4
  for (i32 index = threadIdx.x % wave / 4; index < block_q; index += wave / 4) {
    const Row row(a, work, index);
    const i32 head = pack_gqa ? min(row.head, end_head - 1) : row.head;
    const u32 bits = exists ? words_of_row(a, work.sequence, head, row.row)[word] : 0;
    any |= bits & of_tile;
    all &= bits | ~of_tile;
  }
  return {__any_sync(whole_warp, any != 0) != 0, __any_sync(whole_warp, all != ~0u) == 0};
}

/// Whether the bits themselves are read to find the tiles, which takes long.
REGARD_DEVICE bool asks_bits(const Arguments& a) {
  return config::bits && a.tile_map == 0;
}

/// The tiles of a block of work that some of its rows see, from the last to the first.
struct TilesByBits {
  const u32* seen;  // one bit for each
  i32 end;

  REGARD_DEVICE i32 start() const { return next(end); }  // negative: there is none
  REGARD_DEVICE i32 next(i32 tile) const {
    if (tile <= 0) return -1;
    i32 word = (tile - 1) / 32;
    u32 left = seen[word] & low_bits(tile - word * 32);
    while (left == 0 && word > 0) left = seen[--word];
    return word * 32 + 31 - __clz(static_cast<i32>(left));
  }
};

/// One bit for each tile that some rows of a block see, and for each that all of them see whole.
template <bool needed>
class SeenTiles {
 public:
  /// Finds what is seen of each of the tiles, by a whole warp.
  REGARD_DEVICE void find(const Sm90ForwardArguments& a, const Sm90ForwardWork& work, i32 end_head,
                          const KeyTiles& tiles) {
    const i32 lane = threadIdx.x % wave;
#pragma unroll 1
    for (i32 word = 0; word * 32 < tiles.end; ++word) {
      SeenOfTile mine{false, false};  // of the tile that has the lane's bit
      if (a.tile_map != 0 && tiles.contain(word * 32 + lane))
        mine = ask_map(a, work, end_head, work.first_key + (word * 32 + lane) * block_k);
#pragma unroll 1
      for (i32 i = 0; a.tile_map == 0 && i < wave; ++i) {
        const i32 tile = word * 32 + i;
        if (!tiles.contain(tile)) continue;
        const SeenOfTile seen = ask_bits(a, work, end_head, work.first_key + tile * block_k);
        if (lane == i) mine = seen;
      }
      const u32 seen = __ballot_sync(whole_warp, mine.any), whole = __ballot_sync(whole_warp, mine.all);
      if (lane == 0) seen_[word] = seen, whole_[word] = whole;
    }
  }

  REGARD_DEVICE TilesByBits visited(const KeyTiles& tiles) const { return {seen_, tiles.end}; }
  REGARD_DEVICE bool shows_all(i32 tile) const { return (whole_[tile / 32] >> tile % 32 & 1) != 0; }

 private:
  static constexpr i32 words = static_cast<i32>(Sm90ForwardLayout::most_seen_tiles / 32);
  u32 seen_[words], whole_[words];
};
template <>
class SeenTiles<false> {
 public:
  REGARD_DEVICE void find(const Sm90ForwardArguments&, const Sm90ForwardWork&, i32, const KeyTiles&) {}
  REGARD_DEVICE KeyTiles visited(const KeyTiles& tiles) const { return tiles; }
  REGARD_DEVICE bool shows_all(i32) const { return true; }
};

}  // namespace regard
