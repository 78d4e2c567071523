// stmatrix stores matrices in shared memory, and a fence makes them visible to products.
#pragma once

#include "kernels/cuda/ldmatrix.h"

namespace regard {

/// Stores four matrices; the lanes hold them as ldmatrix returns them.
REGARD_DEVICE void stmatrix(u32 address, u32 a, u32 b, u32 c, u32 d) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(a),
               "r"(b), "r"(c), "r"(d)
               : "memory");
}
/// stmatrix with transposition: a column of what the lanes hold becomes a row in memory.
REGARD_DEVICE void stmatrix_trans(u32 address, const u32 (&x)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address),
               "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3])
               : "memory");
}
}  // namespace regard
