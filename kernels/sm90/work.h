// What there is to do: blocks of query rows, the longest first, and the tiles of keys that each one sees.
#pragma once

#include "kernels/sm90/ptx/types.h"

namespace regard {

constexpr i32 block_q = key::block_q, block_k = key::block_k;
constexpr bool windowed = key::mask != Mask::none;

struct Work {
  i32 first_row, head, batch;
};

REGARD_DEVICE u32 blocks_of_rows(const Arguments& a) {
  return (static_cast<u32>(a.sq) + block_q - 1) / block_q;
}
REGARD_DEVICE u32 all_work(const Arguments& a) {
  return blocks_of_rows(a) * static_cast<u32>(a.b) * static_cast<u32>(a.hq);
}

/// `index` < all_work. Neighbours in the order share K and V where they can: a group of (batch, head) pairs
/// goes through its blocks of rows together. With a mask the last rows see most keys, so they come first.
REGARD_DEVICE Work work_at(u32 index, const Arguments& a) {
  const u32 heads = static_cast<u32>(a.hq), pairs = static_cast<u32>(a.b) * heads;
  const u32 blocks = blocks_of_rows(a), group = static_cast<u32>(a.side_by_side);
  const u32 first = index / (blocks * group) * group;
  const u32 size = min(group, pairs - first), rest = index - first * blocks;
  const u32 block = rest / size, of_pair = first + rest % size;
  return {static_cast<i32>((windowed ? blocks - 1 - block : block) * block_q),
          static_cast<i32>(of_pair % heads), static_cast<i32>(of_pair / heads)};
}

/// Keys [first, last) that a row sees.
struct Visible {
  i32 first, last;
};

/// Which keys the rows of a sequence see.
struct Sight {
  i32 keys;         // of the sequence
  i32 diagonal;     // key of query row 0 on the diagonal
  i32 left, right;  // of the diagonal; negative: unbounded

  static constexpr i64 farthest = 1 << 30;

  REGARD_DEVICE explicit Sight(const Arguments& a)
      : keys(static_cast<i32>(a.sk)),
        diagonal(a.top_left ? 0 : static_cast<i32>(a.sk - a.sq)),
        left(static_cast<i32>(min(a.window_left, farthest))),
        right(static_cast<i32>(min(a.window_right, farthest))) {}

  REGARD_DEVICE Visible of(i32 row) const {
    Visible seen{0, keys};
    if constexpr (windowed) {
      const i32 center = row + diagonal;
      if (left >= 0) seen.first = max(0, center - left);
      if (right >= 0) seen.last = min(keys, center + right + 1);
    }
    return seen;
  }
};

/// Tiles [first, last) have a key that some row of the block sees; of [whole_first, whole_last) every row
/// sees every key. They are worked on from the last to the first; below `seen` every row has seen a key
/// before.
struct Tiles {
  i32 first, last, whole_first, whole_last, seen;
};

REGARD_DEVICE Tiles tiles_of(const Work& work, const Sight& sight) {
  const Visible top = sight.of(work.first_row), bottom = sight.of(work.first_row + block_q - 1);
  Tiles tiles{top.first / block_k, (bottom.last + block_k - 1) / block_k,
              (bottom.first + block_k - 1) / block_k, top.last / block_k, 0};
  tiles.seen = top.last > tiles.whole_last * block_k ? tiles.whole_last : tiles.whole_last - 1;
  if (bottom.last <= top.first) tiles.last = tiles.first;
  return tiles;
}

}  // namespace regard
