// Loads and stores of fp32 numbers in shared memory.
#pragma once

#include "kernels/cuda/warp.h"

namespace regard {

REGARD_DEVICE void load_shared(float (&x)[2], u32 from) {
  asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(x[0]), "=f"(x[1]) : "r"(from) : "memory");
}
REGARD_DEVICE void load_shared_4(float* x, u32 from) {
  asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(x[0]), "=f"(x[1]), "=f"(x[2]), "=f"(x[3])
               : "r"(from)
               : "memory");
}
REGARD_DEVICE void store_shared(u32 to, float a, float b, float c, float d) {
  asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(to), "f"(a), "f"(b), "f"(c), "f"(d)
               : "memory");
}

}  // namespace regard
