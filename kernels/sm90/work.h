// The work to be done: blocks of query rows, and the tiles of keys that each one sees.
#pragma once

#include "kernels/cuda/warp.h"
#include "kernels/key_part.h"
#include "kernels/sm90/forward_layout.h"
#include "kernels/sm90/forward_schedule.h"
#include "kernels/sm90/row_ranges.h"
#include "kernels/window.h"

namespace regard {

constexpr i32 block_q = config::block_q, block_k = config::block_k;
constexpr bool eight_bits = config::dtype == DType::fp8 || config::dtype == DType::fp8_e5m2;
constexpr i32 element_bytes = eight_bits ? 1 : 2;
constexpr bool pack_gqa = config::pack_gqa > 0, wide_heads = config::d > 128;
constexpr bool windowed = config::mask != Mask::none;
constexpr bool split_kv = config::split > 0;  // the keys
// Whether K and V may be a KV cache: with 8-bit types, one warp loads everything and has few registers.
constexpr bool caches = config::paged || !eight_bits;
// Whether K and V lie in pages, and whether threads copy their rows: pages have no boxes of several rows.
constexpr bool paged = config::paged, gathered = paged && config::gather > 0;
// Blocks of a cluster take neighbouring query rows of a head, and each loads half of their K and V for both:
// the tiles that any of their rows sees.
constexpr i32 cluster = config::cluster > 1 ? config::cluster : 1;
constexpr i32 cluster_rows = cluster * block_q;
static_assert(!gathered || !eight_bits);  // one warp loads everything, and has no registers to spare
static_assert(!paged || cluster == 1);
// Whether what a row sees depends on more than its position: then rows need not have seen a key when they
// come to a tile.
constexpr bool masked_by_row = config::bits || config::ranges;
static_assert(cluster == 1 || !masked_by_row);
static_assert(cluster <= 2 && (cluster == 1 || !(eight_bits || split_kv || pack_gqa)));

/// Which part of the keys a block of work has, if they are split.
template <bool split>
struct KeyPart {
  i32 number, first_key, keys;

  /// Of a sequence.
  REGARD_DEVICE static u32 count(const Sm90ForwardArguments& a, i32 keys_of_sequence) {
    return static_cast<u32>(parts_of_sequence(a, keys_of_sequence));
  }
  /// Parts of the same rows are adjacent: extracts the part from an index of both.
  REGARD_DEVICE static KeyPart out_of(u32& index, const Sm90ForwardArguments& a, i32 keys_of_sequence) {
    const u32 parts = count(a, keys_of_sequence), number = index % parts;
    index /= parts;
    return {static_cast<i32>(number), 0, 0};
  }
  REGARD_DEVICE void set(const Range32& part) { first_key = part.begin, keys = part.count(); }
};
template <>
struct KeyPart<false> {
  static constexpr i32 number = 0, first_key = 0, keys = 0;

  REGARD_DEVICE static u32 count(const Sm90ForwardArguments&, i32) { return 1; }
  REGARD_DEVICE static KeyPart out_of(u32&, const Sm90ForwardArguments&, i32) { return {}; }
  REGARD_DEVICE void set(const Range32&) {}
};

/// A block of query rows of one head, or of several heads from `head` on, and a part of the keys.
struct Sm90ForwardWork : KeyPart<split_kv> {
  Sequence32 sequence;
  i32 head, first_row;
};

/// A row of a block.
struct Row {
  i32 head, row;

  REGARD_DEVICE Row(const Sm90ForwardArguments& a, const Sm90ForwardWork& work, i32 index)
      : head(pack_gqa ? work.head + (index >> a.row_bits) : work.head),
        row(work.first_row + (pack_gqa ? index & ((1 << a.row_bits) - 1) : index)) {}
};

/// What a block's rows see of its keys.
REGARD_DEVICE Window32 window_of(const Sm90ForwardWork& work, const Sm90ForwardArguments& a) {
  const Window32 window(a, work.sequence);
  return split_kv ? window.of_part(work.first_key, work.keys) : window;
}

/// Tiles of keys that a block goes through, from the last to the first: [begin, end), which have a key in
/// the window of some row of the block, or of its cluster, then those before `sinks`.
struct KeyTiles {
  i32 begin, end, sinks;

  REGARD_DEVICE i32 start() const { return end - 1; }  // negative: there is none
  REGARD_DEVICE i32 next(i32 tile) const {
    return !windowed || tile > begin ? tile - 1 : min(tile, sinks) - 1;
  }
  REGARD_DEVICE bool contain(i32 tile) const { return tile < end && (tile >= begin || tile < sinks); }
};

/// Which of these tiles some rows of the block see: none from `end` on; every row sees every key of those in
/// `whole`. Among these, those below `begun` come after every row has seen a key.
struct VisibleTiles {
  i32 end;
  Range32 whole;
  i32 begun;

  REGARD_DEVICE bool is_whole(i32 tile) const {
    return (!windowed || tile >= whole.begin) && tile < whole.end;
  }
};

REGARD_DEVICE i32 tiles_before(i32 key) {
  return (max(key, 0) + block_k - 1) / block_k;
}

/// The windows of the first and the last of `count` rows from `first_row` on. Rows past the last one of the
/// sequence are ignored: which tiles are whole must not depend on where a block ends.
struct BlockWindow {
  Range32 top, bottom;

  REGARD_DEVICE BlockWindow(i32 first_row, i32 count, const Window32& window)
      : top(window.keys_of(min(first_row, window.rows - 1))),
        bottom(window.keys_of(min(first_row + count, window.rows) - 1)) {}
  /// No row sees a key of its window: rows see only sinks, if any.
  REGARD_DEVICE bool empty() const { return bottom.end <= top.begin; }
  REGARD_DEVICE i32 end_of_sinks(const Window32& window) const { return min(window.sinks, bottom.end); }
};

/// Those of the rows of a block with ranges, by a whole warp.
REGARD_DEVICE RowsWindow ranged_window_of(const Sm90ForwardWork& work, const Sm90ForwardArguments& a,
                                          const Window32& window) {
  const i32 rows = pack_gqa ? 1 << a.row_bits : block_q;
  return rows_window_of(a, work.sequence, work.first_key, work.first_row, rows, window);
}

/// Those of the rows of a block, or of its cluster.
REGARD_DEVICE BlockWindow block_window_of(const Sm90ForwardWork& work, const Sm90ForwardArguments& a,
                                          const Window32& window) {
  const i32 rows = pack_gqa ? 1 << a.row_bits : cluster_rows;
  return {work.first_row / cluster_rows * cluster_rows, rows, window};
}

/// Finds the part's keys.
REGARD_DEVICE void find_part(Sm90ForwardWork& work, const Sm90ForwardArguments& a) {
  const Window32 window(a, work.sequence);
  Range32 seen;
  if constexpr (config::ranges) {
    const RowsWindow of_block = ranged_window_of(work, a, window);
    seen = {of_block.top.begin, max(of_block.bottom.end, of_block.sinks)};
  } else {
    const BlockWindow of_block = block_window_of(work, a, window);
    seen = {of_block.top.begin, of_block.bottom.end};
  }
  const i32 begin = windowed && window.sinks > 0 ? 0 : seen.begin;
  work.set(keys_of_part(a, work.number, Range32{begin, seen.end}, block_k));
}

/// Of the rows of a block, from their BlockWindow or RowsWindow.
template <class Edges>
REGARD_DEVICE KeyTiles tiles_of(const Edges& block, const Window32& window) {
  KeyTiles tiles{block.top.begin / block_k, tiles_before(block.bottom.end), 0};
  if (windowed && window.left >= 0) tiles.sinks = tiles_before(block.end_of_sinks(window));
  if (!block.empty())
    tiles.sinks = min(tiles.sinks, tiles.begin);
  else
    tiles.begin = tiles.end = tiles.sinks;
  return tiles;
}

template <class Edges>
REGARD_DEVICE VisibleTiles visible_tiles_of(const Edges& block, const Window32& window) {
  const i32 end = tiles_of(block, window).end;
  if (block.empty()) return {end, {end, end}, end - 1};
  const i32 whole_end = max(block.top.end, 0) / block_k;
  return {end,
          {tiles_before(block.bottom.begin), whole_end},
          block.top.end > whole_end * block_k ? whole_end : whole_end - 1};
}

}  // namespace regard
