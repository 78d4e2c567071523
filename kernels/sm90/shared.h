// What the warpgroups of a block share: rings of tiles in dynamic shared memory, their barriers, and the
// turns of work (turn.h) that the scheduler hands out to all others.
#pragma once

#include "kernels/sm90/forward_layout.h"
#include "kernels/sm90/mapped_rows.h"
#include "kernels/sm90/order.h"
#include "kernels/sm90/ptx/barrier.h"
#include "kernels/sm90/ring.h"
#include "kernels/sm90/turn.h"

namespace regard {

constexpr Sm90ForwardLayout layout({.bytes = element_bytes,
                                    .d = config::d,
                                    .dv = config::dv,
                                    .block_q = block_q,
                                    .block_k = block_k,
                                    .stages = config::stages});
constexpr i32 stages = config::stages, q_stages = layout.q_stages;
constexpr i32 consumer_warps = 4 * consumers;
// Warps of the first warpgroup that load or, for 8-bit types, transpose V; the remaining one hands out work.
constexpr i32 helper_warps = 3;
constexpr i32 columns = Sm90ForwardLayout::output_columns(config::dv);
constexpr bool stores_boxes = layout.stores_boxes(config::split, config::pack_gqa);
// The part of the head dimension or of keys that one product takes, and how many of those a box holds.
constexpr i32 step_bytes = 32, steps_per_box = box_bytes / step_bytes;
static_assert(config::warps * wave == Sm90ForwardLayout::threads(block_q) &&
              block_k * element_bytes % step_bytes == 0);

struct Sm90ForwardShared {
  Barrier q_full[q_stages][consumers], q_empty[q_stages][consumers];
  Barrier k_full[stages], k_empty[stages], v_full[stages], v_empty[stages];
  // 8-bit types: V as it is multiplied.
  Barrier transposed_full[eight_bits ? stages : 1], transposed_empty[eight_bits ? stages : 1];
  // Two turns are in progress at a time.
  Barrier turn_full[2], turn_done[2];
  Turn turn[2];
  u32 blocks;  // of work, in total
  // For each warp, the rows (one bit each) that overflowed in a turn, and those that a turn of the safe
  // softmax is to write.
  u32 overflowed[2][consumer_warps], rows[2][consumer_warps];
  // Only with ragged maps.
  Ranking ranking;
  i32 rows_per_batch[4];  // of Q, K, V and O in memory

  Barrier turn_loaded[2];  // the loads of the last K of a turn have been issued

  // The overflowed rows of the other block of the cluster, sent when its warps are done with a turn.
  Barrier peer_done[2];
  u32 peer_overflowed[2][cluster > 1 ? consumer_warps : 1];
  // What the first block of the cluster took from the counter, sent to the other one.
  Barrier taken_full[2];
  u32 taken[2];

  /// By a warp, or more.
  REGARD_DEVICE void init(const Arguments& a) {
    const i32 i = threadIdx.x;
    if (ragged(a) && i < (stores_boxes ? 4 : 3)) {  // otherwise they are not read
      const Rows& rows = i == 0 ? a.q : i == 1 ? a.k : i == 2 ? a.v : a.o;
      rows_per_batch[i] = MappedRows::per_batch(rows);
    }
    if (i < q_stages * consumers) {
      q_full[0][i].init(1);
      q_empty[0][i].init(4);
    }
    if (i < stages) {
      k_full[i].init(gathered ? wave : 1);
      k_empty[i].init(cluster * consumer_warps);
      v_full[i].init(gathered ? wave : 1);
      v_empty[i].init(eight_bits ? helper_warps : cluster * consumer_warps);
      if constexpr (eight_bits) {
        transposed_full[i].init(helper_warps);
        transposed_empty[i].init(consumer_warps);
      }
    }
    if (i < 2) {
      turn_full[i].init(1);
      turn_loaded[i].init(1);
      turn_done[i].init(consumer_warps + helper_warps);
      peer_done[i].init(1);
      taken_full[i].init(1);
    }
    if (i < 2 * consumer_warps) {
      overflowed[0][i] = 0;
      if constexpr (cluster > 1) peer_overflowed[0][i] = 0;
    }
    Barrier::make_visible();
  }
};

static_assert(sizeof(Sm90ForwardShared) <= Sm90ForwardLayout::static_bytes);

/// The rings of Q, K, V and transposed V, one after the other.
class Sm90ForwardMemory {
 public:
  REGARD_DEVICE explicit Sm90ForwardMemory(const void* dynamic) {
    constexpr u32 alignment = Sm90ForwardLayout::alignment;
    start_ = (shared_address(dynamic) + alignment - 1) / alignment * alignment;
  }
  REGARD_DEVICE u32 q(i32 slot, i32 warpgroup) const {
    return start_ + slot * static_cast<u32>(layout.q) + warpgroup * static_cast<u32>(layout.q / consumers);
  }
  REGARD_DEVICE u32 k(i32 slot) const { return q(q_stages, 0) + slot * static_cast<u32>(layout.k); }
  REGARD_DEVICE u32 v(i32 slot) const { return k(stages) + slot * static_cast<u32>(layout.v); }
  REGARD_DEVICE u32 transposed(i32 slot) const {
    return v(stages) + slot * static_cast<u32>(layout.transposed);
  }

 private:
  u32 start_;
};

}  // namespace regard
