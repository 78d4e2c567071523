// The warp that takes work and hands it out to all others of the block, in turns.
#pragma once

#include "kernels/sm90/ptx/cluster.h"
#include "kernels/sm90/shared.h"

namespace regard {

class Scheduler {
 public:
  REGARD_DEVICE Scheduler(const Sm90ForwardArguments& a, Sm90ForwardShared& shared)
      : a_(a), shared_(shared), order_(a, shared.ranking) {
    const u32 blocks = order_.count();
    if (first_lane) shared_.blocks = blocks;
    __syncwarp();
  }

  /// Hands out a turn; false for the one that says that there is no more work. Counted work is taken as late
  /// as loads allow, so that the rest is spread evenly at the end; other work is known ahead, and if Q has a
  /// second slot it is handed out as early as possible; so is work with bits that have no map, whose tiles
  /// take long to find. Rows that overflowed in a turn are redone two turns later, before anything new.
  REGARD_DEVICE bool publish_next() {
    const bool late = (q_stages == 1 || a_.counter != nullptr) && !asks_bits(a_);
    if (!eight_bits && late && turn_ > 0) shared_.turn_loaded[(turn_ - 1) % 2].wait((turn_ - 1) / 2 % 2);
    wait_for_slot(turn_);
    u32 redone = turn_;  // its parity is the slot of a turn whose rows are redone
    bool safe_softmax = again(redone % 2);
    if (!safe_softmax) {
      if (used_) take();
      if (index_ >= shared_.blocks) {
        wait_for_slot(++redone);
        safe_softmax = again(redone % 2);
        if (!safe_softmax) return publish_end();
      }
    }
    used_ |= !safe_softmax;
    publish(safe_softmax ? shared_.turn[redone % 2].work : order_.at(index_, member()), safe_softmax);
    return true;
  }

 private:
  /// Waits until the turn two before `next` has ended.
  REGARD_DEVICE void wait_for_slot(u32 next) {
    shared_.turn_done[next % 2].wait(next / 2 % 2 ^ 1);
    if constexpr (cluster > 1) shared_.peer_done[next % 2].wait(next / 2 % 2 ^ 1);
  }

  REGARD_DEVICE void take() {
    u32 taken = index_;
    if (first_lane && a_.counter != nullptr) taken = cluster > 1 ? count_for_both() : count();
    index_ = gridDim.x / cluster + __shfl_sync(whole_warp, taken, 0);
    used_ = false;
  }

  REGARD_DEVICE u32 count() { return atomicInc(a_.counter, shared_.blocks - 1); }  // 0 again after the last
  /// The first block of the cluster counts. A slot is rewritten two takes later: by then the other block has
  /// ended the turn that it read there.
  REGARD_DEVICE u32 count_for_both() {
    const u32 slot = counted_ % 2, parity = counted_ / 2 % 2;
    ++counted_;
    Barrier& full = shared_.taken_full[slot];
    if (cluster_rank() == 0) {
      const u32 number = count();
      send(1, shared_.taken[slot], number, full);
      return number;
    }
    full.expect(sizeof shared_.taken[slot]);
    full.wait(parity);
    return shared_.taken[slot];
  }
  /// With a mask, the block whose rows see more keys gets the rows that see fewer in the next turn, so that
  /// neither falls behind in the end.
  REGARD_DEVICE u32 member() const {
    if constexpr (cluster == 1) return 0;
    return windowed ? (cluster_rank() + turn_) % cluster : cluster_rank();
  }

  /// Whether rows of the last turn in `slot` overflowed: then this turn redoes them. Both blocks of a
  /// cluster make the same decision, as neither loads K and V alone.
  REGARD_DEVICE bool again(u32 slot) {
    const u32 warp = threadIdx.x;
    u32 rows = 0, of_peer = 0;
    if (warp < consumer_warps) {
      rows = shared_.overflowed[slot][warp];
      shared_.overflowed[slot][warp] = 0;
      shared_.rows[turn_ % 2][warp] = rows;
      if constexpr (cluster > 1) {
        of_peer = shared_.peer_overflowed[slot][warp];
        shared_.peer_overflowed[slot][warp] = 0;
      }
    }
    return __any_sync(whole_warp, (rows | of_peer) != 0);
  }

  REGARD_DEVICE void publish(const Sm90ForwardWork& work, bool safe_softmax) {
    Turn& turn = shared_.turn[turn_ % 2];
    const Window32 window = window_of(work, a_);
    const i32 lane = threadIdx.x;
    if constexpr (tiles_by_warpgroup) {
      const i32 first_row = work.first_row + lane % consumers * group_rows;
      if (lane < visible_tile_ranges)
        turn.visible[lane] =
            visible_tiles_of(BlockWindow(first_row, lane < consumers ? group_rows : block_q, window), window);
    }
    RowsWindow ranged{};
    if constexpr (config::ranges) ranged = ranged_window_of(work, a_, window);
    __syncwarp();
    if (first_lane) {
      turn.set_work(work, a_, window, ranged);
      turn.safe_softmax = safe_softmax;
      if constexpr (cluster > 1) shared_.peer_done[turn_ % 2].expect(sizeof shared_.peer_overflowed[0]);
      if constexpr (!config::bits) shared_.turn_full[turn_ % 2].arrive();
    }
    __syncwarp();
    if constexpr (config::bits) {
      turn.find(a_, work, turn.end_head, turn.tiles);
      __syncwarp();
      if (first_lane) shared_.turn_full[turn_ % 2].arrive();
      __syncwarp();
    }
    ++turn_;
  }
  REGARD_DEVICE bool publish_end() {
    __syncwarp();
    if (first_lane) {
      shared_.turn[turn_ % 2].work.head = -1;
      shared_.turn_full[turn_ % 2].arrive();
    }
    return false;
  }

  const Sm90ForwardArguments& a_;
  Sm90ForwardShared& shared_;
  Order order_;
  u32 index_ = blockIdx.x / cluster, turn_ = 0, counted_ = 0;
  bool used_ = false;  // the work of index_ has been handed out
  const bool first_lane = threadIdx.x == 0;
};

}  // namespace regard
