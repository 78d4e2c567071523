// Squares back to shared memory, and what makes them visible to products.
#pragma once

#include "kernels/cuda/squares.h"

namespace regard {

/// load_squares the same way back.
REGARD_DEVICE void store_squares(u32 address, u32 a, u32 b, u32 c, u32 d) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(a),
               "r"(b), "r"(c), "r"(d)
               : "memory");
}
/// What this thread wrote can be read by matrix instructions, once they are told.
REGARD_DEVICE void make_visible_to_products() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

}  // namespace regard
