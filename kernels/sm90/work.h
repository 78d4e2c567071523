// What there is to do: blocks of query rows, and the tiles of keys that each one sees.
#pragma once

#include "kernels/cuda/warp.h"
#include "kernels/sm90/forward_layout.h"
#include "kernels/sm90/forward_schedule.h"

namespace regard {

constexpr i32 block_q = key::block_q, block_k = key::block_k;
constexpr bool eight_bits = key::dtype == DType::fp8 || key::dtype == DType::fp8_e5m2;
constexpr i32 element_bytes = eight_bits ? 1 : 2;
constexpr i32 rows_of_head = Sm90ForwardLayout::rows_of_head(block_q, key::pack_gqa);
constexpr bool pack_gqa = key::pack_gqa > 0, wide_heads = key::d > 128;
constexpr bool windowed = key::mask != Mask::none;
constexpr bool in_parts = key::split > 0;  // the keys
// Blocks of a cluster take neighbouring query rows of a head, and each loads half of their K and V for both:
// the tiles that any of their rows sees.
constexpr i32 cluster = key::cluster > 1 ? key::cluster : 1;
constexpr i32 cluster_rows = cluster * block_q;
static_assert(cluster <= 2 && (cluster == 1 || !(eight_bits || in_parts || pack_gqa)));

/// Where the rows of one sequence stand in the tensors, and how many there are.
struct Sequence {
  i32 batch, first_q, first_k;  // packed: the rows before it
  i32 sq, sk;
};

/// Which part of the keys a block of work has, where they are split.
template <bool split>
struct KeyPart {
  i32 number, first_key;

  /// Parts of the same rows go beside each other: takes theirs out of an index of both.
  REGARD_DEVICE static KeyPart out_of(u32& index, const Sm90ForwardArguments& a) {
    const u32 splits = static_cast<u32>(a.splits);
    const i32 number = static_cast<i32>(index % splits);
    index /= splits;
    return {number, number * static_cast<i32>(a.split_keys)};
  }
};
template <>
struct KeyPart<false> {
  static constexpr i32 number = 0, first_key = 0;

  REGARD_DEVICE static KeyPart out_of(u32&, const Sm90ForwardArguments&) { return {}; }
};

/// A block of query rows of one head, or of some from `head` on, and a part of the keys.
struct Work : KeyPart<in_parts> {
  Sequence sequence;
  i32 head, first_row;
};

/// A row of a block.
struct Row {
  i32 head, row;

  REGARD_DEVICE Row(const Work& work, i32 index)
      : head(pack_gqa ? work.head + index / rows_of_head : work.head),
        row(work.first_row + (pack_gqa ? index % rows_of_head : index)) {}
};

/// Keys [first, last) that a row sees; beside them those before `sinks`, as far as `last`.
struct KeyRange {
  i32 first, last;
};

/// The mask of a sequence, which gives each row its key range. A part of the keys is like a sequence of its
/// own: keys and tiles count from its first one.
struct RowMask {
  static constexpr i64 farthest = 1 << 30;

  i32 keys;         // of the sequence
  i32 diagonal;     // key of query row 0 on the diagonal
  i32 left, right;  // of the diagonal; negative: unbounded
  i32 sinks;        // first keys that the left edge does not hide

  REGARD_DEVICE RowMask(const Work& work, const Sm90ForwardArguments& a)
      : keys(keys_of(work, a)),
        diagonal((a.top_left ? 0 : work.sequence.sk - work.sequence.sq) - work.first_key),
        left(static_cast<i32>(min(a.window_left, farthest))),
        right(static_cast<i32>(min(a.window_right, farthest))),
        sinks(static_cast<i32>(min(a.sink_tokens, farthest)) - work.first_key) {}

  REGARD_DEVICE KeyRange visible_keys(i32 row) const {
    KeyRange range{0, keys};
    if constexpr (windowed) {
      const i32 center = row + diagonal;
      if (left >= 0) range.first = max(0, center - left);
      if (right >= 0) range.last = min(keys, center + right + 1);
    }
    return range;
  }

 private:
  REGARD_DEVICE static i32 keys_of(const Work& work, const Sm90ForwardArguments& a) {
    if constexpr (!in_parts) return work.sequence.sk;
    return max(0, min(work.sequence.sk - work.first_key, static_cast<i32>(a.split_keys)));
  }
};

/// Tiles of keys that a block goes through, from the last to the first: [first, last), which have a key in
/// the window of some row of the block, or of its cluster, then those before `sinks`.
struct Tiles {
  i32 first, last, sinks;

  REGARD_DEVICE i32 start() const { return last - 1; }  // negative: there is none
  REGARD_DEVICE i32 next(i32 tile) const {
    return !windowed || tile > first ? tile - 1 : min(tile, sinks) - 1;
  }
};

/// Which of these tiles some rows of the block see: none from `last` on, and of [whole_first, whole_last)
/// every row sees every key. Of the latter those below `begun` come after every row has seen a key.
struct VisibleTiles {
  i32 last, whole_first, whole_last, begun;

  REGARD_DEVICE bool whole(i32 tile) const { return (!windowed || tile >= whole_first) && tile < whole_last; }
};

REGARD_DEVICE i32 tiles_before(i32 key) {
  return (max(key, 0) + block_k - 1) / block_k;
}

/// The key ranges of the first and the last of `count` rows from `first_row` on. Rows behind the last one of
/// the sequence count for nothing: which tiles are whole must not depend on where a block ends.
struct BlockKeyRanges {
  KeyRange top, bottom;

  REGARD_DEVICE BlockKeyRanges(i32 first_row, i32 count, i32 rows_of_sequence, const RowMask& row_mask)
      : top(row_mask.visible_keys(min(first_row, rows_of_sequence - 1))),
        bottom(row_mask.visible_keys(min(first_row + count, rows_of_sequence) - 1)) {}
  /// Whether any row sees a key of its window; else they see sinks alone, if any.
  REGARD_DEVICE bool sees_window() const { return bottom.last > top.first; }
};

REGARD_DEVICE Tiles tiles_of(const BlockKeyRanges& key_ranges, const RowMask& row_mask) {
  Tiles tiles{key_ranges.top.first / block_k, tiles_before(key_ranges.bottom.last), 0};
  if (windowed && row_mask.left >= 0) tiles.sinks = tiles_before(min(row_mask.sinks, key_ranges.bottom.last));
  if (key_ranges.sees_window())
    tiles.sinks = min(tiles.sinks, tiles.first);
  else
    tiles.first = tiles.last = tiles.sinks;
  return tiles;
}

REGARD_DEVICE VisibleTiles visible_tiles_of(const BlockKeyRanges& key_ranges, const RowMask& row_mask) {
  const i32 last = tiles_of(key_ranges, row_mask).last;
  if (!key_ranges.sees_window()) return {last, last, last, last - 1};
  const i32 whole_last = max(key_ranges.top.last, 0) / block_k;
  return {last, tiles_before(key_ranges.bottom.first), whole_last,
          key_ranges.top.last > whole_last * block_k ? whole_last : whole_last - 1};
}

}  // namespace regard
