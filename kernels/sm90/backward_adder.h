// What adds tiles of dQ to their sums in memory, from shared memory, where consumers leave them.
#pragma once

#include "kernels/sm90/backward_shared.h"
#include "kernels/sm90/ptx/tma.h"

namespace regard {

/// By one thread.
REGARD_DEVICE void add_grad_q(const BackwardArguments& a, const Work& work, Shared& shared,
                              const Memory& memory) {
  u32 parity = 0;
#pragma unroll 1
  for (Tile tile(work); tile.exists(work); tile.advance(work), parity ^= 1) {
    float* const sum = a.grad_q_sum + (first_padded_row(a, work.sequence, tile.head) + tile.first_row()) *
                                          static_cast<i64>(layout.d);
#pragma unroll 1
    for (i32 i = 0; i < consumers; ++i) {
      shared.grad_q_full[i].wait(parity);
      add_floats(sum + i * (grad_q_slice / 4), memory.grad_q(i), grad_q_slice);
    }
    end_stored_boxes();
    wait_until_boxes_are_read();
#pragma unroll 1
    for (i32 i = 0; i < consumers; ++i) shared.grad_q_empty[i].arrive();
  }
  wait_until_boxes_are_stored();
}

}  // namespace regard
