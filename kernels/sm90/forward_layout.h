// What the plan must know about forward.cu: its shared memory, and the tensor maps of Q, K, V and O. The
// kernel lays its memory out with the same numbers.
#pragma once

#include "kernels/sm90/boxes.h"

namespace regard {

/// The shared memory and the boxes of one tile. Head dimensions are padded to whole boxes: the tensor maps
/// read zeros there.
struct Sm90ForwardLayout : Sm90Boxes {
  static constexpr i64 warp_rows = 16;       // of a warp: a box of O
  static constexpr i64 static_bytes = 2048;  // of shared_bytes for barriers and turns (shared.h)

  i64 columns;     // of a box
  i64 d, dv;       // padded
  i64 q, k, v;     // bytes of a tile
  i64 transposed;  // bytes of a tile of transposed V, in boxes of keys; 0 if V is not transposed
  i64 q_stages;    // tiles of Q: the next one loads during the work on the last if there is room
  i64 stages;      // of K, of V and of transposed V

  constexpr REGARD_INLINE explicit Sm90ForwardLayout(const Sm90TileShape& tile)
      : columns(box_bytes / tile.bytes),
        d(padded(tile.d)),
        dv(padded(tile.dv)),
        q(tile.block_q * d * tile.bytes),
        k(tile.block_k * d * tile.bytes),
        v(tile.block_k * dv * tile.bytes),
        transposed(tile.bytes > 1
                       ? 0
                       : output_columns(tile.dv) * ((tile.block_k + box_bytes - 1) / box_bytes * box_bytes)),
        q_stages(alignment + 2 * q + tile.stages * (k + v + transposed) + static_bytes <= shared_bytes ? 2
                                                                                                       : 1),
        stages(tile.stages) {}

  /// Whether O goes through the slot of Q and is stored by a tensor map: if Q has two slots, it delays
  /// nothing there. Parts of the keys and heads side by side are stored by their threads; so is O of a
  /// single box, which gains nothing, and for which the compiler would move Q's operands out of uniform
  /// registers.
  constexpr REGARD_INLINE bool stores_boxes(i64 split, i64 heads) const {
    return q_stages == 2 && transposed == 0 && dv > columns && dv <= d && split <= 0 && heads <= 0;
  }

  constexpr REGARD_INLINE i64 padded(i64 dimension) const {
    return (dimension + columns - 1) / columns * columns;
  }
  /// Dynamic shared memory; its start is aligned by the kernel.
  constexpr REGARD_INLINE i64 total() const {
    return alignment + q_stages * q + stages * (k + v + transposed);
  }
  /// Columns of O that are computed: whole groups of four threads that store 8 each.
  static constexpr REGARD_INLINE i64 output_columns(i64 dv) { return (dv + 31) / 32 * 32; }

  /// The most tiles of keys for which a block of work can know what a mask of bits shows.
  static constexpr i64 most_seen_tiles = 1024;

  /// Smaller boxes take longer than copies by threads.
  static constexpr i64 least_box_k = 16;

  /// The rows of a block that belong to one query head, if it has those of several heads that share K and V:
  /// a power of two that holds `rows` of each of `heads`; 0 if packing saves no block.
  static constexpr REGARD_INLINE i64 pack_gqa_rows(i64 rows, i64 heads, i64 block_q) {
    i64 row_group = 1;
    while (row_group < rows || (2 * row_group <= group_rows && 2 * row_group * heads <= block_q))
      row_group *= 2;
    return rows > 0 && row_group <= group_rows && heads > 1 ? row_group : 0;
  }

  static constexpr REGARD_INLINE i64 threads(i64 block_q) { return 128 * (block_q / group_rows + 1); }
};

}  // namespace regard
