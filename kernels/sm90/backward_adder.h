// Decides when a block adds its dQ of a tile to the sums in memory. The first block of keys to reach a tile
// stores its dQ, the others add theirs: in the order of arrival or, without tickets, in turns. If there are
// no turns either, all add to zeros, and no block waits for another.
#pragma once

#include "kernels/cuda/add.h"
#include "kernels/sm90/backward_shared.h"
#include "kernels/sm90/ptx/tma.h"

namespace regard {

/// A block's position among those that add to a tile of dQ.
struct AdderTurn {
  i64 number;  // of the tile
  u32 before;  // blocks that have added; with tickets 1: at least one; without turns 1

  AdderTurn() = default;
  REGARD_DEVICE AdderTurn(const BackwardArguments& a, const Sm90BackwardWork& work, const Window& window,
                          const QueryTile& tile)
      : number(first_tile(a, work.sequence, tile.head) + tile.index) {
    if (!a.turns)
      before = 1;
    else if (a.tickets)
      before = smaller(atomicAdd(a.tickets + number, 1u), 1u);
    else
      before = KeyBlocks(window, tile.first_row(), block_q, block_k)
                   .before(work.first_key / block_k, a.keys_descend != 0);
  }

  /// Whether this block waits for others, and others for this one.
  REGARD_DEVICE bool waits(const BackwardArguments& a) const { return before > 0 && a.turns; }
  REGARD_DEVICE bool is_waited_for(const BackwardArguments& a) const {
    return a.turns && (before == 0 || !a.tickets);
  }
  /// Waits until those have added or, with tickets, the first has stored.
  REGARD_DEVICE void wait(const BackwardArguments& a) const {
    if (waits(a)) wait_for_count(a.turns + number, before);
  }
  REGARD_DEVICE void end(const BackwardArguments& a) const { count_one(a.turns + number); }
};

/// By one thread: from shared memory, where consumers have left it.
REGARD_DEVICE void add_grad_q(const BackwardArguments& a, const Sm90BackwardWork& work,
                              Sm90BackwardShared& shared, const Sm90BackwardMemory& memory) {
  const Window window(a, work.sequence);
  u32 parity = 0;
#pragma unroll 1
  for (QueryTileCursor tile(work); tile.exists(work); tile.advance(work), parity ^= 1) {
    const AdderTurn own_turn(a, work, window, tile.at(work));
    float* const sum = a.grad_q_sum + own_turn.number * (block_q * static_cast<i64>(layout.d));
    own_turn.wait(a);
    if (own_turn.waits(a)) order_memory_before_boxes();
    i32 last = 0;  // the previous slice
#pragma unroll 1
    for (i32 n = 0; n < grad_q_slices; ++n) {  // the first consumer's slices come last
      const i32 i = (first_grad_q_slices + n) % grad_q_slices;
      shared.grad_q_full[i].wait(parity);
      if (own_turn.before == 0)
        store_bytes(sum + i * (grad_q_slice / 4), memory.grad_q(i), grad_q_slice);
      else
        add_floats(sum + i * (grad_q_slice / 4), memory.grad_q(i), grad_q_slice);
      end_stored_boxes();
      // A pair's slices are ready at almost the same time: two are read at once.
      if (shares_keys && n > 0) {
        wait_until_boxes_are_read<1>();
        shared.grad_q_empty[last].arrive();
      }
      last = i;
      if (shares_keys && n < grad_q_slices - 1) continue;
      wait_until_boxes_are_read();
      shared.grad_q_empty[i].arrive();
    }
    if (own_turn.is_waited_for(a)) {
      // The next block's additions must come after all of this, not only after the reads.
      wait_until_boxes_are_stored();
      own_turn.end(a);
    }
  }
  wait_until_boxes_are_stored();
}

/// By a warp, for a pair that adds from its registers: it does so when it is granted the tile.
REGARD_DEVICE void grant_grad_q(const BackwardArguments& a, const Sm90BackwardWork& work,
                                Sm90BackwardShared& shared) {
  const Window window(a, work.sequence);
  const bool is_one = threadIdx.x % wave == 0;
  u32 parity = 0;
#pragma unroll 1
  for (QueryTileCursor tile(work); tile.exists(work); tile.advance(work), parity ^= 1) {
    AdderTurn own_turn;
    if (is_one) {
      own_turn = AdderTurn(a, work, window, tile.at(work));
      own_turn.wait(a);
      shared.blocks_before = own_turn.before;
    }
    __syncwarp();
    for (i32 i = 0; i < consumers; ++i) named_arrive(grad_q_granted + i, granted_threads);
    for (i32 i = 0; i < consumers; ++i) shared.grad_q_full[i].wait(parity);
    if (is_one && own_turn.is_waited_for(a)) own_turn.end(a);
    __syncwarp();
  }
}

}  // namespace regard
