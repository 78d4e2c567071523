// Which numbers of a matrix product a thread has.
#pragma once

#include "kernels/cuda/thread.h"

namespace regard {

/// The sums of a 16 x 8 matrix product in the registers of a wave: x[half][i] of a thread is row row() +
/// half * row_step, column column() + column_offset(i). Four neighbouring lanes share their rows.
struct Fragment {
  static constexpr i32 rows = 16, columns = 8;
  static constexpr i32 halves = 2, width = 2;  // rows and columns of a thread
  static constexpr i32 neighbours = 2;         // of its columns

  float x[halves][width];

  /// The row and the column of this thread's [0][0]; the others follow at fixed distances.
  REGARD_DEVICE static i32 row() { return lane() / 4; }
  REGARD_DEVICE static i32 column() { return lane() % 4 * 2; }
  static constexpr i32 row_step = 8;  // from half to half
  static constexpr REGARD_INLINE i32 column_offset(i32 i) { return i; }

  /// The lane that holds this thread's rows from column `n` * neighbours on.
  REGARD_DEVICE static i32 lane_of(i32 n) { return lane() / 4 * 4 + n; }
  REGARD_DEVICE static bool first_of_row() { return lane() % 4 == 0; }
};

/// The reductions go over the lanes that share a row.
REGARD_DEVICE float reduce_max(float x) {
  return quad_max(x);
}
REGARD_DEVICE float reduce_sum(float x) {
  return quad_sum(x);
}
REGARD_DEVICE u32 reduce_or(u32 bits) {
  bits |= __shfl_xor_sync(whole_warp, bits, 1);
  return bits | __shfl_xor_sync(whole_warp, bits, 2);
}

}  // namespace regard
