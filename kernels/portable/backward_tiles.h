// The tiles of queries that a block of keys processes, and what their rows see of its keys.
#pragma once

#include "kernels/portable/backward_memory.h"
#include "kernels/portable/mask.h"
#include "kernels/tile_map.h"

namespace regard {

struct QueryTiles {
  const BackwardArguments& a;
  const PortableBackwardMemory memory;
  const BackwardCommon& common;

  REGARD_DEVICE QueryTiles(const BackwardArguments& arguments, const PortableBackwardMemory& of_block)
      : a(arguments), memory(of_block), common(*of_block.common) {}

  REGARD_DEVICE i64 padded_row(const HeadTile& tile) const {
    return common.padded_row + tile.head * a.padded_rows + tile.first_row;
  }

  REGARD_DEVICE Head head_of(const HeadTile& tile) const { return Head(a, common.work.batch, tile.head); }
  REGARD_DEVICE bool exists(const HeadTile& tile) const { return tile.head < common.work.end_head; }

  REGARD_DEVICE HeadTile first() const { return seen_from({common.work.first_head, common.start_row}); }
  REGARD_DEVICE HeadTile after(const HeadTile& tile) const { return seen_from(step(tile)); }

  /// Whether every row sees every key of the block by position.
  REGARD_DEVICE bool sees_all(const HeadTile& tile) const {
    const Window& window = common.window;
    const i64 begin = common.work.first_key, end = begin + block_k;
    if constexpr (!by_position) return end <= window.keys;
    if (window.keys_of(tile.first_row).end < end) return false;
    const i64 last_row = smaller<i64>(tile.first_row + block_q, window.rows) - 1;
    return !a.ranges && window.keys_of(last_row).begin <= begin;
  }
  REGARD_DEVICE bool is_masked(const HeadTile& tile) const {
    return !sees_all(tile) || (config::bits && !map_sees_all(tile));
  }
  REGARD_DEVICE void find_visible(const HeadTile& tile) const {
    if constexpr (by_position) {
      for (i32 i = thread(); i < block_q; i += threads) memory.visible.rows[i] = range_of(tile, i);
    }
  }

 private:
  REGARD_DEVICE HeadTile step(HeadTile tile) const {
    tile.first_row += block_q;
    if (tile.first_row >= common.end_row) tile.first_row = common.first_row;
    if (tile.first_row == common.start_row) ++tile.head;
    return tile;
  }

  /// The map of the bits for the keys of the block, if a stage has written it.
  REGARD_DEVICE TileLines map_of(i32 head) const {
    const i32 first = common.work.first_key;
    return tile_map_of(a, common.work.batch, head)
        .of_keys(first, static_cast<i32>(smaller<i64>(first + block_k, common.window.keys)));
  }
  REGARD_DEVICE bool map_sees_all(const HeadTile& tile) const {
    const TileLines map = map_of(tile.head);
    const i64 end = smaller<i64>(tile.first_row + block_q, common.window.rows);
    return map.exist() && map.whole(tile.first_row, static_cast<i32>(end));
  }

  /// The first tile from this one on in which the map of the bits, if there is one, lets some row see some
  /// key.
  REGARD_DEVICE HeadTile mapped_from(HeadTile tile) const {
    if (!config::bits || a.tile_map == 0) return tile;
#pragma unroll 1
    while (exists(tile)) {
      // A head's tiles are those from the start to the last row, and then those before the start.
      const bool begins = tile.first_row >= common.start_row;
      const i32 end = begins ? common.end_row : common.start_row;
      const i32 seen = map_of(tile.head).first_seen(tile.first_row, end);
      if (seen < end) {
        tile.first_row = larger(tile.first_row, seen / block_q * block_q);
        break;
      }
      tile.first_row = begins ? common.first_row : common.start_row;
      if (tile.first_row == common.start_row) ++tile.head;
    }
    return tile;
  }

  /// The first tile from this one on in which ranges and bits let some row see some key; called by the whole
  /// block of threads. If blocks take turns, each has its turn in all tiles.
  REGARD_DEVICE HeadTile seen_from(HeadTile tile) const {
    if (config::mask == Mask::none && !config::bits) return tile;
    if (a.turns || (!config::bits && !a.ranges)) return tile;
    while (exists(tile = mapped_from(tile)) && !is_seen(tile)) tile = step(tile);
    return tile;
  }
  REGARD_DEVICE bool is_seen(const HeadTile& tile) const {
    if constexpr (by_position) {
      if (a.ranges) {
        bool sees = false;
#pragma unroll 1
        for (i32 i = thread(); i < block_q; i += threads) {
          const RowKeyRange row = range_of(tile, i);
          const Range32 keys{common.work.first_key, common.work.first_key + block_k};
          sees |= (!row.window.empty() && row.window.overlaps(keys)) ||
                  (!row.sinks.empty() && row.sinks.overlaps(keys));
        }
        if (!any_in_block(sees)) return false;
      }
    }
    if constexpr (config::bits)
      return a.tile_map != 0 || Bits(head_of(tile), tile.first_row).any(common.work.first_key);
    return true;
  }

  /// Rows past the last one repeat it.
  REGARD_DEVICE RowKeyRange range_of(const HeadTile& tile, i32 row) const {
    const Sequence sequence = common.sequence;
    return range_of_row(a, sequence, smaller<i32>(tile.first_row + row, static_cast<i32>(sequence.sq) - 1));
  }
};

}  // namespace regard
