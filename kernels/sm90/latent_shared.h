// What the warps of a latent block share: Q, a ring of tiles of K and the weights of one tile in dynamic
// shared memory, their barriers, and the turns of work.
#pragma once

#include "kernels/sm90/latent_layout.h"
#include "kernels/sm90/mapped_rows.h"
#include "kernels/sm90/order.h"
#include "kernels/sm90/ptx/barrier.h"
#include "kernels/sm90/ring.h"
#include "kernels/sm90/turn.h"

namespace regard {

constexpr Sm90LatentLayout layout({.bytes = 2,
                                   .d = config::d,
                                   .dv = config::dv,
                                   .block_q = block_q,
                                   .block_k = block_k,
                                   .stages = config::stages});
constexpr i32 stages = config::stages;
constexpr i32 boxes = Sm90LatentLayout::boxes, box_of_k = block_k * box_bytes;  // in bytes
// Two warpgroups multiply the same weights by a half of V each; a third one loads.
constexpr i32 halves = 2, boxes_of_half = (boxes - 1) / halves;
constexpr i32 half_columns = Sm90LatentLayout::dv / halves;
constexpr i32 loading_warps = 4;
// The columns that one product takes, and how many of those a box holds.
constexpr i32 step_bytes = 32, steps_per_box = box_bytes / step_bytes;
static_assert(config::d == Sm90LatentLayout::d && config::dv == Sm90LatentLayout::dv);
static_assert(block_q == group_rows && block_k == 64 && config::warps == 4 * (1 + halves) && cluster == 1);

/// The boxes of a tile that become free together, in the order in which that happens: the one that V does not
/// have, once the scores are computed, then the halves of V.
struct BoxesOfPart {
  i32 first, count;

  REGARD_DEVICE explicit BoxesOfPart(i32 part)
      : first(part == 0 ? boxes - 1 : (part - 1) * boxes_of_half), count(part == 0 ? 1 : boxes_of_half) {}
};
constexpr i32 parts_of_tile = 1 + halves;

/// Boxes share a barrier in pairs, except the last one, so that Q K^T can begin before a tile is complete. A
/// pair's products are a group of their own: the first pair is the last box.
constexpr i32 pairs_of_tile = 1 + (boxes - 1) / 2;
REGARD_DEVICE constexpr i32 pair_of_box(i32 box) {
  return box == boxes - 1 ? 0 : 1 + box / 2;
}

struct Sm90LatentShared {
  Barrier q_full, q_empty;
  Barrier k_full[stages][pairs_of_tile], k_empty[stages][parts_of_tile];
  // These guard what the warpgroup of the scores hands to the other one: the weights of a tile with the
  // factors of O, and at the end of a turn the factors alone.
  Barrier p_full, p_empty;
  // Two turns are in progress at a time.
  Barrier turn_full[2], turn_done[2];
  Turn turn[2];
  float factor[group_rows];
  bool rescales[4];       // whether the factors of a warp's rows are to be applied
  Ranking ranking;        // only with ragged maps
  i32 rows_per_batch[3];  // of Q, K and the last columns of K in memory

  /// Called by a warp, or more.
  REGARD_DEVICE void init(const Arguments& a) {
    const i32 i = threadIdx.x;
    if (ragged(a) && i < 3) {  // otherwise they are not read
      const Rows& rows = i == 0 ? a.q : i == 1 || a.k_rope.data == nullptr ? a.k : a.k_rope;
      rows_per_batch[i] = MappedRows::per_batch(rows);
    }
    if (i == 0) {
      q_full.init(1);
      q_empty.init(4);
      p_full.init(4);
      p_empty.init(4);
    }
    if (i < stages * pairs_of_tile) k_full[0][i].init(1);
    if (i < stages * parts_of_tile) k_empty[0][i].init(4);
    if (i < 2) {
      turn_full[i].init(1);
      turn_done[i].init(4 * halves + loading_warps - 1);  // all but the one that publishes turns
    }
    Barrier::make_visible();
  }
};

static_assert(sizeof(Sm90LatentShared) <= Sm90LatentLayout::static_bytes);
static_assert(stages * pairs_of_tile <= wave);

/// Q, the ring of K and the weights, one after the other.
class Sm90LatentMemory {
 public:
  REGARD_DEVICE explicit Sm90LatentMemory(const void* dynamic) {
    constexpr u32 alignment = Sm90LatentLayout::alignment;
    start_ = (shared_address(dynamic) + alignment - 1) / alignment * alignment;
  }
  REGARD_DEVICE u32 q() const { return start_; }
  REGARD_DEVICE u32 k(i32 slot, i32 box) const {
    return start_ + static_cast<u32>(layout.q) + slot * static_cast<u32>(layout.k) + box * box_of_k;
  }
  REGARD_DEVICE u32 p() const { return k(stages, 0); }

 private:
  u32 start_;
};

}  // namespace regard
