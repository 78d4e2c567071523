// A turn: a block of work as one warp hands it out to the others.
#pragma once

#include "kernels/sm90/seen_tiles.h"

namespace regard {

constexpr i32 group_rows = Sm90ForwardLayout::group_rows, box_bytes = Sm90ForwardLayout::box_bytes;
/// Warpgroups that multiply different query rows.
constexpr i32 consumers = config::warps / 4 - 1;

/// If tiles are narrower than the rows that go through them together (a block's or a cluster's), its
/// warpgroups see different tiles. With wide heads of 8-bit types the loop over tiles then costs more than
/// that saves.
constexpr bool tiles_by_warpgroup =
    windowed && !config::ranges && !pack_gqa && block_k < cluster_rows && (!eight_bits || config::d <= 64);

/// By whose rows the visible tiles are determined: each warpgroup's, in clusters also those of all; or only
/// those of all.
constexpr i32 visible_tile_ranges = tiles_by_warpgroup ? consumers + (cluster > 1 ? 1 : 0) : 1;

/// What a block sees of pages under a window: the first key that a row sees, and the end of the sinks.
template <bool needed>
struct SeenPages {
  i32 first_key, sinks;

  REGARD_DEVICE void set(i32 first, i32 end_of_sinks) { first_key = first, sinks = end_of_sinks; }
};
template <>
struct SeenPages<false> {
  static constexpr i32 first_key = 0, sinks = 0;

  REGARD_DEVICE void set(i32, i32) {}
};

/// A block of work, handed out.
struct Turn : SeenPages<paged && windowed>, SeenTiles<config::bits> {
  Sm90ForwardWork work;   // head -1: there is no more
  i32 kv_head, end_head;  // end_head: past the last query head of kv_head
  KeyTiles tiles;
  VisibleTiles visible[visible_tile_ranges];
  bool safe_softmax;  // redoes rows that overflowed

  /// Everything but `safe_softmax`; with tiles_by_warpgroup, without `visible`. `ranged`: of the block's rows
  /// if they have ranges.
  REGARD_DEVICE void set_work(const Sm90ForwardWork& of, const Sm90ForwardArguments& a,
                              const Window32& window, const RowsWindow& ranged) {
    const i32 heads_per_kv = static_cast<i32>(a.hq) / static_cast<i32>(a.hk);
    work = of;
    kv_head = of.head / heads_per_kv;
    if constexpr (pack_gqa) end_head = (kv_head + 1) * heads_per_kv;
    if constexpr (config::ranges)
      set_tiles(ranged, of, window, ranged.sinks);
    else
      set_tiles(block_window_of(of, a, window), of, window, window.sinks);
  }

  /// The tiles to go through.
  REGARD_DEVICE auto visited() const { return SeenTiles<config::bits>::visited(tiles); }

 private:
  template <class Edges>
  REGARD_DEVICE void set_tiles(const Edges& of_block, const Sm90ForwardWork& of, const Window32& window,
                               i32 end_of_sinks) {
    tiles = tiles_of(of_block, window);
    if constexpr (!tiles_by_warpgroup) visible[0] = visible_tiles_of(of_block, window);
    set(of_block.empty() ? of.sequence.sk : of.first_key + of_block.top.begin,
        window.left >= 0 ? of.first_key + end_of_sinks : 0);
  }
};

}  // namespace regard
