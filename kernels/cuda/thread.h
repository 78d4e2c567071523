// A thread's position: in its block, in its wave, and in the group of lanes that share rows of a matrix
// product.
#pragma once

#include "kernels/cuda/warp.h"
#include "kernels/numbers.h"

namespace regard {

/// The thread's number in its block. Read again each time: values derived from it are cheaper to recompute
/// than to keep in registers through an inner loop.
REGARD_DEVICE i32 thread() {
  i32 number;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(number));
  __builtin_assume(number >= 0);  // so that a remainder is a mask
  return number;
}
REGARD_DEVICE i32 lane() {
  return thread() % wave;
}

REGARD_DEVICE bool any_in_wave(bool x) {
  return __any_sync(whole_warp, x);
}
/// Waits until all lanes have arrived; what each of them wrote before is then visible to the others.
REGARD_DEVICE void sync_wave() {
  __syncwarp();
}
/// The `x` of another lane of the wave.
REGARD_DEVICE float from_lane(float x, i32 lane) {
  return __shfl_sync(whole_warp, x, lane);
}

/// The sums of a 16 x 8 matrix product in the registers of a wave: x[half][i] of a thread is row row() +
/// half * row_step, column column() + i. Four neighbouring lanes share their rows.
struct Fragment {
  static constexpr i32 rows = 16, columns = 8;
  static constexpr i32 halves = 2, width = 2;  // rows and columns of a thread

  float x[halves][width];

  /// The row and the column of this thread's [0][0]; the others follow at fixed distances.
  REGARD_DEVICE static i32 row() { return lane() / 4; }
  REGARD_DEVICE static i32 column() { return lane() % 4 * 2; }
  static constexpr i32 row_step = 8;  // from half to half; columns are neighbours
  /// The lane that holds a column of this thread's rows.
  REGARD_DEVICE static i32 lane_of(i32 column) { return lane() / 4 * 4 + column / 2; }
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
