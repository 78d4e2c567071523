// A thread's position in its block and in its wave, and what threads do together.
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

REGARD_DEVICE u32 block_index() {
  return blockIdx.x;
}
REGARD_DEVICE u32 block_count() {
  return gridDim.x;
}

REGARD_DEVICE bool any_in_wave(bool x) {
  return __any_sync(whole_warp, x);
}
/// By all threads of the block.
REGARD_DEVICE bool any_in_block(bool x) {
  return __syncthreads_or(x) != 0;
}
/// Waits until all threads of the block have arrived; what each of them wrote to shared memory before is then
/// visible to the others.
REGARD_DEVICE void sync_block() {
  __syncthreads();
}
/// Likewise for what they wrote to global memory.
REGARD_DEVICE void sync_block_and_global() {
  __syncthreads();
}
/// Waits until all lanes have arrived; what each of them wrote before is then visible to the others.
REGARD_DEVICE void sync_wave() {
  __syncwarp();
}
/// How many steps of an unrolled product are read ahead; 0: as many as the compiler likes.
constexpr i32 steps_read_ahead = 0;
REGARD_DEVICE void end_reading_ahead() {}
/// The `x` of another lane of the wave.
REGARD_DEVICE float from_lane(float x, i32 lane) {
  return __shfl_sync(whole_warp, x, lane);
}
REGARD_DEVICE u32 from_lane(u32 x, i32 lane) {
  return __shfl_sync(whole_warp, x, lane);
}
/// In shared memory.
REGARD_DEVICE void atomic_max(i32* to, i32 x) {
  atomicMax(to, x);
}
REGARD_DEVICE void atomic_min(i32* to, i32 x) {
  atomicMin(to, x);
}

}  // namespace regard
