// What adds tiles of dQ to their sums in memory, from shared memory, where consumers leave them.
#pragma once

#include "kernels/cuda/add.h"
#include "kernels/sm90/backward_shared.h"
#include "kernels/sm90/ptx/tma.h"

namespace regard {

/// By one thread. The first block of keys that comes to a tile stores its dQ, the others add theirs: in the
/// order in which they come, or, without tickets, in turns.
REGARD_DEVICE void add_grad_q(const BackwardArguments& a, const Work& work, Shared& shared,
                              const Memory& memory) {
  const Window window(a, work.sequence);
  u32 parity = 0;
#pragma unroll 1
  for (Tile tile(work); tile.exists(work); tile.advance(work), parity ^= 1) {
    const i64 number = first_tile(a, work.sequence, tile.head) + tile.index;
    float* const sum = a.grad_q_sum + number * (block_q * static_cast<i64>(layout.d));
    u32 before;  // blocks that have added, or 1: some
    if (a.tickets)
      before = smaller(atomicAdd(a.tickets + number, 1u), 1u);
    else
      before = KeyBlocks(window, tile.first_row(), block_q, block_k)
                   .before(work.first_key / block_k, a.keys_descend != 0);
    if (before > 0) {
      wait_for_count(a.turns + number, before);
      order_memory_before_boxes();
    }
#pragma unroll 1
    for (i32 i = 0; i < consumers; ++i) {
      shared.grad_q_full[i].wait(parity);
      if (before == 0)
        store_bytes(sum + i * (grad_q_slice / 4), memory.grad_q(i), grad_q_slice);
      else
        add_floats(sum + i * (grad_q_slice / 4), memory.grad_q(i), grad_q_slice);
    }
    end_stored_boxes();
    if (before == 0 || !a.tickets) {
      // What the next block adds must come behind all of this, not only behind its reading.
      wait_until_boxes_are_stored();
      count_one(a.turns + number);
    } else {
      wait_until_boxes_are_read();
    }
#pragma unroll 1
    for (i32 i = 0; i < consumers; ++i) shared.grad_q_empty[i].arrive();
  }
  wait_until_boxes_are_stored();
}

}  // namespace regard
