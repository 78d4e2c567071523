// Assembles a row of 16-bit numbers from the fragments of a quad, for storing to memory.
#pragma once

#include "kernels/cuda/number.h"

namespace regard {

REGARD_DEVICE void store_16_bytes(void* to, const u32 (&x)[4]) {
  asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(x[0]), "r"(x[1]), "r"(x[2]),
               "r"(x[3])
               : "memory");
}

/// A step of a 2 x 2 exchange: lanes with `bit` send and replace their first value, the others their second.
REGARD_DEVICE void exchange(u32& first, u32& second, u32 bit) {
  const bool upper = threadIdx.x & bit;
  const u32 other = __shfl_xor_sync(whole_warp, upper ? first : second, bit);
  (upper ? first : second) = other;
}

/// Row `half` of the thread's two rows, scaled and rounded: each thread of the quad gets eight neighbours of
/// every 32 columns. By whole warps.
template <DType dtype, i32 columns>
REGARD_DEVICE void take_row(u32 (&x)[columns / 32][4], const float (&sums)[columns / 2], i32 half,
                            float scale) {
#pragma unroll
  for (i32 i = 0; i < columns / 8; ++i)
    x[i / 4][i % 4] = pair<dtype>(sums[4 * i + 2 * half] * scale, sums[4 * i + 2 * half + 1] * scale);
#pragma unroll
  for (u32(&eight)[4] : x) {
    exchange(eight[0], eight[1], 1);
    exchange(eight[2], eight[3], 1);
    exchange(eight[0], eight[2], 2);
    exchange(eight[1], eight[3], 2);
  }
}

}  // namespace regard
