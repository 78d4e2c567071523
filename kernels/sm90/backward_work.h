// The work of a block of backward.cu: a block of keys of one K/V head, and the tiles of queries that see any
// of them, query head by query head.
#pragma once

#include "kernels/backward_schedule.h"
#include "kernels/backward_window.h"
#include "kernels/sm90/backward_seen_tiles.h"
#include "kernels/tile_map.h"

namespace regard {

constexpr i32 block_q = config::block_q, block_k = config::block_k;
constexpr i32 group_rows = Sm90Boxes::group_rows, box_bytes = Sm90Boxes::box_bytes;
constexpr bool windowed = config::mask != Mask::none;

/// A tile of queries of a head.
struct QueryTile {
  i32 head, index;

  REGARD_DEVICE i32 first_row() const { return index * block_q; }
};

/// A block of keys and, for each query head, the tiles with a query that sees any of them.
struct Sm90BackwardWork {
  Sequence sequence;
  i32 batch, kv_head, first_key;
  i32 first_head, heads;  // query heads that it processes
  Range32 tiles;
  i32 start_tile;
  const SeenTiles& seen;  // with bits: which of them

  REGARD_DEVICE Sm90BackwardWork(const BackwardArguments& a, u32 block, const SeenTiles& seen_)
      : seen(seen_) {
    const u32 group = static_cast<u32>(a.hq) / static_cast<u32>(a.hk),
              of_part = static_cast<u32>(a.part_heads), parts = (group + of_part - 1) / of_part;
    const u32 key_blocks = (static_cast<u32>(a.sk) + block_k - 1) / block_k;
    // Blocks of keys of as many heads as the cache holds run together, those that the most queries see
    // first.
    const u32 heads_of_all = static_cast<u32>(a.b) * static_cast<u32>(a.hk) * parts,
              together = smaller(static_cast<u32>(a.side_by_side), heads_of_all),
              first = block / (together * key_blocks) * together,
              here = smaller(together, heads_of_all - first);
    block -= first * key_blocks;
    u32 index = first + block % here;
    const u32 key_block = a.keys_descend ? key_blocks - 1 - block / here : block / here;
    const u32 part = index % parts;
    index /= parts;
    kv_head = static_cast<i32>(index % static_cast<u32>(a.hk));
    batch = static_cast<i32>(index / static_cast<u32>(a.hk));
    first_head = kv_head * group + part * of_part;
    heads = smaller(of_part, group - part * of_part);
    first_key = static_cast<i32>(key_block * block_k);
    sequence = sequence_of(a, batch);
    find_tiles(a);
    const bool all_tiles = config::bits ? !a.positional : !windowed;
    if (all_tiles && (a.tickets || !a.turns))  // in no fixed order
      start_tile += regard::start_tile(key_block, key_blocks, static_cast<u32>(tiles.count()));
  }

  REGARD_DEVICE bool has_keys() const { return first_key < sequence.sk; }
  /// The tile that is number `number` of all heads' tiles in order.
  REGARD_DEVICE QueryTile tile(i32 number) const {
    const u32 of_head = static_cast<u32>(tiles.count()), head = static_cast<u32>(number) / of_head;
    const i32 index = start_tile + number - static_cast<i32>(head * of_head);
    return {first_head + static_cast<i32>(head), index < tiles.end ? index : index - tiles.count()};
  }

 private:
  REGARD_DEVICE void find_tiles(const BackwardArguments& a) {
    tiles = {0, 0};
    start_tile = 0;
    if (!has_keys()) return;
    const Window window(a, sequence);
    const Range32 rows = rows_that_see(window, first_key, first_key + block_k);
    if (rows.empty()) return;
    tiles = {rows.begin / block_q, (rows.end + block_q - 1) / block_q};
    start_tile = tiles.begin;
  }
};

/// The tiles of a block's work in order: for each head from its start tile on, wrapping around to it.
template <bool by_bits>
class QueryTiles {
 public:
  REGARD_DEVICE explicit QueryTiles(const Sm90BackwardWork& work) : tile_{work.first_head, work.start_tile} {}
  REGARD_DEVICE bool exists(const Sm90BackwardWork& work) const {
    return !work.tiles.empty() && tile_.head < work.first_head + work.heads;
  }
  REGARD_DEVICE void advance(const Sm90BackwardWork& work) {
    if (++tile_.index == work.tiles.end) tile_.index = work.tiles.begin;
    if (tile_.index == work.start_tile) ++tile_.head;
  }
  REGARD_DEVICE QueryTile at(const Sm90BackwardWork&) const { return tile_; }
  REGARD_DEVICE bool is_whole(const Sm90BackwardWork&) const { return false; }

 private:
  QueryTile tile_;
};

/// Of these, those that are seen. Consumers have a register for a number, not for a head and a tile.
template <>
class QueryTiles<true> {
 public:
  REGARD_DEVICE explicit QueryTiles(const Sm90BackwardWork& work) : number_(work.seen.next(0)) {}
  REGARD_DEVICE bool exists(const Sm90BackwardWork& work) const { return number_ < work.seen.count; }
  REGARD_DEVICE void advance(const Sm90BackwardWork& work) { number_ = work.seen.next(number_ + 1); }
  REGARD_DEVICE QueryTile at(const Sm90BackwardWork& work) const { return work.tile(number_); }
  /// Whether the bits of all its queries and keys are set.
  REGARD_DEVICE bool is_whole(const Sm90BackwardWork& work) const { return work.seen.is_whole(number_); }

 private:
  i32 number_;
};

using QueryTileCursor = QueryTiles<config::bits>;

/// Whether the ranges of some of a sequence's rows have keys of [first_key, end_key).
REGARD_DEVICE bool ranges_reach(const BackwardArguments& a, const Sequence& sequence, Range32 rows,
                                i32 first_key, i32 end_key) {
  const i32* const ranges = a.ranges + sequence.batch * a.ranges_batch + 2 * i64{sequence.first_q};
  bool any = false;
#pragma unroll 8
  for (i32 row = rows.begin; row < rows.end; ++row) {
    const i32 begin = ranges[2 * row], end = ranges[2 * row + 1];
    any |= begin < end_key && end > first_key && begin < end;
  }
  return any;
}

/// Finds the tiles that are seen, by all warps of the block, which then have to wait for each other. Without
/// a map and ranges, and where blocks add to dQ in turns, which are counted by position, all are.
REGARD_DEVICE void find_seen_tiles(const BackwardArguments& a, const Sm90BackwardWork& work, SeenTiles& to) {
  const bool in_turns = a.turns && !a.tickets, has_map = a.tile_map != 0 && !in_turns,
             has_ranges = a.ranges != nullptr && !in_turns;
  const i32 tiles = work.heads * work.tiles.count();
  const i32 end_key = smaller(work.first_key + block_k, static_cast<i32>(work.sequence.sk));
  i32 shift = 0;
  while ((tiles - 1) >> shift >= SeenTiles::bits) ++shift;
  if (thread() == 0) to.count = tiles, to.shift = shift;
#pragma unroll 1
  for (i32 word = thread() / wave; word < SeenTiles::words; word += config::warps) {
    const i32 begin = (word * wave + lane()) << shift, end = smaller(begin + (1 << shift), tiles);
    bool any = !has_map && !has_ranges && begin < end, all = has_map;
#pragma unroll 1
    for (i32 number = begin; (has_map || has_ranges) && number < end; ++number) {
      const QueryTile tile = work.tile(number);
      const i32 row = tile.first_row(), end_row = smaller(row + block_q, static_cast<i32>(work.sequence.sq));
      bool seen = true;
      if (has_map) {
        const TileLines rows = tile_map_of(a, work.batch, tile.head).of_keys(work.first_key, end_key);
        seen = rows.first_seen(row, end_row) < end_row;
        all &= rows.whole(row, end_row);
      }
      if (seen && has_ranges) seen = ranges_reach(a, work.sequence, {row, end_row}, work.first_key, end_key);
      any |= seen;
    }
    const u32 seen = __ballot_sync(whole_warp, any), whole = __ballot_sync(whole_warp, all);
    if (lane() == 0) to.seen[word] = seen, to.whole[word] = whole;
  }
}

}  // namespace regard
