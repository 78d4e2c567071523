// ldmatrix loads 8 x 8 matrices of 16-bit numbers from shared memory into a warp, four at a time: lane l
// supplies the address of row l % 8 of matrix l / 8, and receives from each matrix two neighbours of row l /
// 4, starting at column 2 (l % 4).
#pragma once

#include "kernels/cuda/warp.h"

namespace regard {

REGARD_DEVICE void ldmatrix(u32 (&x)[4], u32 address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
               : "r"(address)
               : "memory");
}
/// ldmatrix with transposition: a row in memory is a column of what the lanes receive.
REGARD_DEVICE void ldmatrix_trans(u32 (&x)[4], u32 address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
               : "r"(address)
               : "memory");
}

}  // namespace regard
