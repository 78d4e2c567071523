// 8x8 tiles of 16-bit numbers between shared memory and a warp, and what makes them visible to products.
#pragma once

#include "kernels/sm90/ptx/types.h"

namespace regard {

/// Four 8x8 tiles, transposed: the eight rows of 16 bytes of tile i stand where lanes 8 i to 8 i + 7 say.
/// x[i] is elements 2 t and 2 t + 1 of column `lane / 4`, t = lane % 4.
REGARD_DEVICE void load_transposed(u32 (&x)[4], u32 row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
               : "r"(row)
               : "memory");
}
/// The same way back, not transposed: x[i] is elements 2 t and 2 t + 1 of row `lane / 4` of tile i.
REGARD_DEVICE void store_tiles(u32 row, u32 a, u32 b, u32 c, u32 d) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(row), "r"(a), "r"(b),
               "r"(c), "r"(d)
               : "memory");
}
/// What this thread wrote can be read by matrix instructions, once they are told.
REGARD_DEVICE void make_visible_to_products() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

}  // namespace regard
