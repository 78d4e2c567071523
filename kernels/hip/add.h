// Sums in global memory that many blocks add to, and counters by which they take turns.
#pragma once

#include "kernels/hip/wave.h"

namespace regard {

REGARD_DEVICE void add(float* to, float x) {
  __hip_atomic_fetch_add(to, x, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}
template <i32 count>
REGARD_DEVICE void add(float* to, const float (&x)[count]) {
#pragma unroll
  for (i32 i = 0; i < count; ++i) add(to + i, x[i]);
}
REGARD_DEVICE void add(float* to, const float (&x)[2], const float (&y)[2]) {
  add(to, x);
  add(to + 2, y);
}

/// Called by one thread for its block: once another block's count is visible, so is everything that block
/// did before counting.
REGARD_DEVICE void wait_for_count(const u32* counter, u32 count) {
  while (__hip_atomic_load(global(counter), __ATOMIC_ACQUIRE, __HIP_MEMORY_SCOPE_AGENT) != count) {
    __builtin_amdgcn_s_sleep(1);
  }
}
REGARD_DEVICE void count_one(u32* counter) {
  __hip_atomic_fetch_add(global(counter), 1u, __ATOMIC_RELEASE, __HIP_MEMORY_SCOPE_AGENT);
}

}  // namespace regard
