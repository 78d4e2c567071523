// ldmatrix loads 8 x 8 numbers of 16 bits from shared memory to a warp, four matrices at a time: lane l gives
// the address of row l % 8 of matrix l / 8, and gets of each matrix two neighbours of row l / 4, from column
// 2 (l % 4) on.
#pragma once

#include "kernels/cuda/warp.h"

namespace regard {

REGARD_DEVICE void ldmatrix(u32 (&x)[4], u32 address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
               : "r"(address)
               : "memory");
}
/// ldmatrix of transposed matrices: what is a row in memory is a column of what the lanes get.
REGARD_DEVICE void ldmatrix_trans(u32 (&x)[4], u32 address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
               : "r"(address)
               : "memory");
}

}  // namespace regard
