// 8 x 8 numbers of 16 bits from shared memory to a warp, four squares at a time: lane l gives the address of
// row l % 8 of square l / 8, and gets of each one two neighbours of row l / 4, from column 2 (l % 4) on.
#pragma once

#include "kernels/cuda/warp.h"

namespace regard {

REGARD_DEVICE void load_squares(u32 (&x)[4], u32 address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
               : "r"(address)
               : "memory");
}
/// Each square turned: rows as they are in memory are the columns of what a lane gets.
REGARD_DEVICE void load_turned(u32 (&x)[4], u32 address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
               : "r"(address)
               : "memory");
}

}  // namespace regard
