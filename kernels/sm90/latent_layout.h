// What the plan must know about latent.cu: its shared memory. The kernel lays its memory out with the same
// numbers.
#pragma once

#include "kernels/sm90/boxes.h"

namespace regard {

/// V is the first columns of K: the tiles of K are those of V, too.
struct Sm90LatentLayout : Sm90Boxes {
  static constexpr i64 static_bytes = 2048;  // of shared_bytes for barriers and turns (latent_shared.h)
  static constexpr i64 columns = 64;         // of a box
  static constexpr i64 d = 576, dv = 512;    // V is K without its last box
  static constexpr i64 boxes = d / columns;  // of a tile

  i64 q, k, p;  // bytes of a tile; p: of the weights
  i64 stages;   // of K

  constexpr REGARD_INLINE explicit Sm90LatentLayout(const Sm90TileShape& tile)
      : q(tile.block_q * d * tile.bytes),
        k(tile.block_k * d * tile.bytes),
        p(tile.block_q * tile.block_k * tile.bytes),
        stages(tile.stages) {}

  /// Dynamic shared memory; its start is aligned by the kernel.
  constexpr REGARD_INLINE i64 total() const { return alignment + q + stages * k + p; }
};

}  // namespace regard
