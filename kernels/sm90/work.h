// What there is to do: blocks of query rows, the longest first, and the tiles of keys that each one sees.
#pragma once

#include "kernels/sm90/arguments.h"
#include "kernels/sm90/ptx/types.h"

namespace regard {

constexpr i32 block_q = key::block_q, block_k = key::block_k;
constexpr bool windowed = key::mask != Mask::none;

struct Work {
  i32 first_row, head, batch;
};

REGARD_DEVICE u32 blocks_of_rows(const ForwardArguments& a) {
  return (a.sq + block_q - 1) / block_q;
}
REGARD_DEVICE u32 all_work(const ForwardArguments& a) {
  return blocks_of_rows(a) * a.b * a.hq;
}

/// `index` < all_work. Neighbours in the order share K and V where they can: a group of (batch, head) pairs
/// goes through its blocks of rows together. With a mask the last rows see most keys, so they come first.
REGARD_DEVICE Work work_at(u32 index, const ForwardArguments& a) {
  const u32 blocks = blocks_of_rows(a), pairs = a.b * a.hq;
  const u32 first = index / (blocks * a.group) * a.group;
  const u32 size = min(a.group, pairs - first), rest = index - first * blocks;
  const u32 block = rest / size, of_pair = first + rest % size;
  return {static_cast<i32>((windowed ? blocks - 1 - block : block) * block_q),
          static_cast<i32>(of_pair % a.hq), static_cast<i32>(of_pair / a.hq)};
}

/// Keys [first, last) that a row sees.
struct Visible {
  i32 first, last;
};

REGARD_DEVICE Visible visible(i32 row, const ForwardArguments& a) {
  Visible keys{0, a.sk};
  if constexpr (windowed) {
    const i32 center = row + a.diagonal;
    if (a.window_left >= 0) keys.first = max(0, center - a.window_left);
    if (a.window_right >= 0) keys.last = min(a.sk, center + a.window_right + 1);
  }
  return keys;
}

/// Tiles [first, last) have a key that some row of the block sees; of [whole_first, whole_last) every row
/// sees every key. They are worked on from the last to the first; below `seen` every row has seen a key
/// before.
struct Tiles {
  i32 first, last, whole_first, whole_last, seen;
};

REGARD_DEVICE Tiles tiles_of(const Work& work, const ForwardArguments& a) {
  const Visible top = visible(work.first_row, a), bottom = visible(work.first_row + block_q - 1, a);
  Tiles tiles{top.first / block_k, (bottom.last + block_k - 1) / block_k,
              (bottom.first + block_k - 1) / block_k, top.last / block_k, 0};
  tiles.seen = top.last > tiles.whole_last * block_k ? tiles.whole_last : tiles.whole_last - 1;
  if (bottom.last <= top.first) tiles.last = tiles.first;
  return tiles;
}

}  // namespace regard
