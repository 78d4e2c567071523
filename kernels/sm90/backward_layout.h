// What the plan must know of backward.cu: its shared memory, and the boxes of Q, K, V and dO. The kernel lays
// its memory out with the same numbers.
#pragma once

#include "kernels/sm90/boxes.h"

namespace regard {

/// The shared memory of one tile of keys. Head dimensions are padded to whole boxes: the tensor maps read
/// zeros there.
struct Sm90BackwardLayout : Sm90Boxes {
  static constexpr i64 element_bytes = 2;
  static constexpr i64 box_columns = box_bytes / element_bytes;
  static constexpr i64 ds_stages = 2, grad_q_stages = 3;
  static constexpr i64 common = 512;  // bytes of barriers and of what the loader keeps (backward_loader.h)

  i64 d, dv;                // padded
  i64 k, v, q, grad_o, ds;  // bytes of a tile
  i64 grad_q;               // of a slice of dQ on its way to memory, fp32
  i64 row_numbers;          // of LSE, or of D, of a tile
  i64 stages;               // of Q, and of dO

  REGARD_CONSTEXPR Sm90BackwardLayout(i64 d_, i64 dv_, i64 block_q, i64 block_k, i64 stages_)
      : d(padded(d_)),
        dv(padded(dv_)),
        k(block_k * d * element_bytes),
        v(block_k * dv * element_bytes),
        q(block_q * d * element_bytes),
        grad_o(block_q * dv * element_bytes),
        ds(block_q * block_k * element_bytes),
        grad_q(block_q * slice_columns(d_) * 4),
        row_numbers(block_q * 4),
        stages(stages_) {}

  REGARD_CONSTEXPR static i64 padded(i64 dimension) {
    return (dimension + box_columns - 1) / box_columns * box_columns;
  }
  /// Dynamic shared memory, all there is.
  REGARD_CONSTEXPR i64 total() const {
    return k + v + stages * (q + grad_o + 2 * row_numbers) + ds_stages * ds + grad_q_stages * grad_q + common;
  }
  /// Columns of dQ that are made at a time, where K and V leave registers for them, and their number.
  REGARD_CONSTEXPR static i64 slice_columns(i64 dimension) {
    return dimension > box_columns ? box_columns / 2 : box_columns;
  }
  REGARD_CONSTEXPR i64 grad_q_slices() const { return d / slice_columns(d); }

  /// Warpgroups that have 64 keys each; one more makes dQ.
  REGARD_CONSTEXPR static i64 consumers(i64 block_k) { return block_k / group_rows; }
  REGARD_CONSTEXPR static i64 threads(i64 block_k) { return 128 * (consumers(block_k) + 1); }
};

}  // namespace regard
