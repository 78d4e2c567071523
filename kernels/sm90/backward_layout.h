// What the plan must know about backward.cu: its shared memory, and the boxes of Q, K, V and dO. The kernel
// lays its memory out with the same numbers.
#pragma once

#include "kernels/sm90/boxes.h"

namespace regard {

/// The shared memory of one tile of keys. Head dimensions are padded to whole boxes: the tensor maps read
/// zeros there. Two warpgroups multiply: each has 64 keys (backward_consumer.h), or both share 64 keys if
/// one alone has no registers for their dK and dV (backward_pair.h).
struct Sm90BackwardLayout : Sm90Boxes {
  static constexpr i64 element_bytes = 2;
  static constexpr i64 box_columns = box_bytes / element_bytes;
  static constexpr i64 consumers = 2, threads = 128 * (consumers + 1);
  static constexpr i64 grad_o_stages = 2, ds_stages = 2;
  static constexpr i64 most_seen_tiles = 512, seen_bytes = 2 * most_seen_tiles / 8;  // of SeenTiles
  static constexpr i64 barrier_bytes = 256;  // more than the barriers take (backward_shared.h)

  i64 d, dv;                // padded
  i64 k, v, q, grad_o, ds;  // bytes of a tile
  i64 weights;              // of a tile from one of a pair to the other, fp32
  i64 grad_q;               // of a tile to be added to memory, fp32; 0: a pair adds from registers
  i64 row_numbers;          // of LSE, or of D, of a tile
  i64 kept;                 // bits of the weights of a tile that dropout keeps; a pair has no dropout
  i64 mask;                 // bits of a tile's scores: which are visible
  i64 q_stages, mask_stages;

  constexpr REGARD_INLINE explicit Sm90BackwardLayout(const Sm90TileShape& tile)
      : d(padded(tile.d)),
        dv(padded(tile.dv)),
        k(tile.block_k * d * element_bytes),
        v(tile.block_k * dv * element_bytes),
        q(tile.block_q * d * element_bytes),
        grad_o(tile.block_q * dv * element_bytes),
        ds(tile.block_q * tile.block_k * element_bytes),
        weights(shares_keys(tile.block_k) ? tile.block_q * tile.block_k * 4 : 0),
        grad_q(tile.block_q * d * 4),
        row_numbers(tile.block_q * 4),
        kept(shares_keys(tile.block_k) ? 0 : tile.block_q * tile.block_k / 8),
        mask(tile.block_q * tile.block_k / 8),
        q_stages(tile.stages),
        mask_stages(shares_keys(tile.block_k) ? 1 : tile.stages) {
    if (shares_keys(tile.block_k) && total() + static_bytes() > shared_bytes) grad_q = 0;
  }

  static constexpr REGARD_INLINE i64 padded(i64 dimension) {
    return (dimension + box_columns - 1) / box_columns * box_columns;
  }
  /// Dynamic shared memory; its start is aligned by the kernel.
  constexpr REGARD_INLINE i64 total() const {
    return alignment + k + v + q_stages * (q + row_numbers) + grad_o_stages * (grad_o + row_numbers) +
           ds_stages * ds + weights + grad_q;
  }

  /// Static shared memory, at most.
  constexpr REGARD_INLINE i64 static_bytes() const {
    return barrier_bytes + seen_bytes + kept + mask_stages * mask;
  }

  static constexpr REGARD_INLINE bool shares_keys(i64 block_k) { return block_k == group_rows; }
  /// The slices of grad_q_sum's tiles (kernels/backward_schedule.h): each is the result of one product.
  constexpr REGARD_INLINE i64 grad_q_slices(i64 block_k) const {
    return shares_keys(block_k) ? d / box_columns : consumers;
  }
};

}  // namespace regard
