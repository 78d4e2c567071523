// The work of a block of backward.cu: a block of keys of one K/V head, and the tiles of queries that see any
// of them, query head by query head.
#pragma once

#include "kernels/backward_schedule.h"
#include "kernels/backward_window.h"
#include "kernels/sm90/backward_layout.h"

namespace regard {

constexpr i32 block_q = config::block_q, block_k = config::block_k;
constexpr i32 group_rows = Sm90Boxes::group_rows, box_bytes = Sm90Boxes::box_bytes;
constexpr bool windowed = config::mask != Mask::none;

/// A block of keys and, for each query head, the tiles with a query that sees any of them.
struct Sm90BackwardWork {
  Sequence sequence;
  i32 batch, kv_head, first_key;
  i32 first_head, heads;  // query heads that it processes
  Range32 tiles;
  i32 start_tile;

  REGARD_DEVICE Sm90BackwardWork(const BackwardArguments& a, u32 block) {
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
struct QueryTileCursor {
  i32 head, index;

  REGARD_DEVICE explicit QueryTileCursor(const Sm90BackwardWork& work)
      : head(work.first_head), index(work.start_tile) {}
  REGARD_DEVICE bool exists(const Sm90BackwardWork& work) const {
    return !work.tiles.empty() && head < work.first_head + work.heads;
  }
  REGARD_DEVICE void advance(const Sm90BackwardWork& work) {
    if (++index == work.tiles.end) index = work.tiles.begin;
    if (index == work.start_tile) ++head;
  }
  REGARD_DEVICE i32 first_row() const { return index * block_q; }
};

}  // namespace regard
