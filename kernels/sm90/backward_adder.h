// What adds tiles of dQ to their sums in memory, from shared memory, where consumers leave them.
#pragma once

#include "kernels/portable/cuda/add.h"
#include "kernels/sm90/backward_shared.h"
#include "kernels/sm90/ptx/tma.h"

namespace regard {

/// By one thread. Where each tile has a counter, blocks of keys add to it in turns.
REGARD_DEVICE void add_grad_q(const BackwardArguments& a, const Work& work, Shared& shared,
                              const Memory& memory) {
  const Window window(a, work.sequence);
  u32 parity = 0;
#pragma unroll 1
  for (Tile tile(work); tile.exists(work); tile.advance(work), parity ^= 1) {
    const i64 row = first_padded_row(a, work.sequence, tile.head) + tile.first_row();
    float* const sum = a.grad_q_sum + row * static_cast<i64>(layout.d);
    u32* const turn = a.turns ? a.turns + row / block_q : nullptr;
    if (turn) {
      const KeyBlocks blocks(window, tile.first_row(), block_q, block_k);
      wait_for_count(turn, blocks.before(work.first_key / block_k, a.keys_descend != 0));
    }
#pragma unroll 1
    for (i32 i = 0; i < consumers; ++i) {
      shared.grad_q_full[i].wait(parity);
      add_floats(sum + i * (grad_q_slice / 4), memory.grad_q(i), grad_q_slice);
    }
    end_stored_boxes();
    if (turn) {
      // What the next block adds must come behind all of this, not only behind its reading.
      wait_until_boxes_are_stored();
      count_one(turn);
    } else {
      wait_until_boxes_are_read();
    }
#pragma unroll 1
    for (i32 i = 0; i < consumers; ++i) shared.grad_q_empty[i].arrive();
  }
  wait_until_boxes_are_stored();
}

}  // namespace regard
