// Which tiles of queries see any of a block's keys, where bits decide it, and which see all of them.
#pragma once

#include "kernels/cuda/thread.h"
#include "kernels/sm90/backward_layout.h"

namespace regard {

/// In shared memory: a bit for each tile of a block, in the order in which the block visits them. All warps
/// read the same bits, and so agree about the next tile. If there are more tiles than bits, each bit is for
/// several neighbouring ones.
struct SeenTiles {
  static constexpr i32 bits = static_cast<i32>(Sm90BackwardLayout::most_seen_tiles), words = bits / wave;
  i32 count;  // of all tiles
  i32 shift;  // a bit is for 2^shift tiles
  u32 seen[words], whole[words];

  /// The first tile from this one on that is seen; `count` or more if there is none.
  REGARD_DEVICE i32 next(i32 from) const {
    while (from < count) {
      const i32 bit = from >> shift;
      const u32 rest = seen[bit / wave] >> bit % wave;
      if (rest & 1) return from;
      from = (bit + (rest != 0 ? __ffs(static_cast<i32>(rest)) - 1 : wave - bit % wave)) << shift;
    }
    return from;
  }
  /// Whether the bits of all pairs of a query and a key are set.
  REGARD_DEVICE bool is_whole(i32 tile) const {
    const i32 bit = tile >> shift;
    return (whole[bit / wave] >> bit % wave & 1) != 0;
  }
};

}  // namespace regard
