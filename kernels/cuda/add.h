// Sums in global memory that many blocks add to, and counters by which they take turns.
#pragma once

#include "kernels/cuda/warp.h"

namespace regard {

REGARD_DEVICE void add(float* to, float x) {
  asm volatile("red.global.add.f32 [%0], %1;" ::"l"(to), "f"(x) : "memory");
}
/// `to` is aligned to 8 bytes.
REGARD_DEVICE void add(float* to, const float (&x)[2]) {
  if constexpr (target::vector_atomics) {
    asm volatile("red.global.add.v2.f32 [%0], {%1, %2};" ::"l"(to), "f"(x[0]), "f"(x[1]) : "memory");
  } else {
    add(to, x[0]);
    add(to + 1, x[1]);
  }
}
/// `to` is aligned to 16 bytes.
REGARD_DEVICE void add(float* to, const float (&x)[2], const float (&y)[2]) {
  if constexpr (target::vector_atomics) {
    asm volatile("red.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(to), "f"(x[0]), "f"(x[1]), "f"(y[0]),
                 "f"(y[1])
                 : "memory");
  } else {
    add(to, x);
    add(to + 2, y);
  }
}

REGARD_DEVICE void store(float* to, const float (&x)[2], const float (&y)[2]) {
  asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(to), "f"(x[0]), "f"(x[1]), "f"(y[0]),
               "f"(y[1])
               : "memory");
}

/// Called by one thread for its block: once another block's count is visible, so is everything that block
/// did before counting.
REGARD_DEVICE void wait_for_count(const u32* counter, u32 count) {
  u32 seen;
  do {
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(seen) : "l"(counter) : "memory");
  } while (seen != count);
}
REGARD_DEVICE void count_one(u32* counter) {
  asm volatile("red.release.gpu.global.add.u32 [%0], %1;" ::"l"(counter), "r"(1u) : "memory");
}

}  // namespace regard
