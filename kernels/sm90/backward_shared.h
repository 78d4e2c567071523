// What the warpgroups of a block of backward.cu share: tiles in dynamic shared memory, and their barriers.
#pragma once

#include "kernels/dropout.h"
#include "kernels/sm90/backward_work.h"
#include "kernels/sm90/ptx/barrier.h"
#include "kernels/sm90/ring.h"

namespace regard {

constexpr Sm90BackwardLayout layout({.bytes = Sm90BackwardLayout::element_bytes,
                                     .d = config::d,
                                     .dv = config::dv,
                                     .block_q = block_q,
                                     .block_k = block_k,
                                     .stages = config::stages});
constexpr i32 q_stages = layout.q_stages, grad_o_stages = Sm90BackwardLayout::grad_o_stages,
              ds_stages = Sm90BackwardLayout::ds_stages;
constexpr i32 consumers = Sm90BackwardLayout::consumers, consumer_warps = 4 * consumers;
constexpr bool shares_keys = Sm90BackwardLayout::shares_keys(block_k);
static_assert(config::warps * wave == Sm90BackwardLayout::threads);
static_assert(shares_keys ? block_q == group_rows : block_k == consumers * group_rows);

/// Slices of a tile of dQ in shared memory: each is the result of one consumer's product. The first consumer
/// makes the first ones.
constexpr bool grad_q_is_shared = layout.grad_q > 0;
constexpr i32 grad_q_slices = layout.grad_q_slices(block_k), first_grad_q_slices = (grad_q_slices + 1) / 2;
constexpr i32 grad_q_slice = layout.grad_q / grad_q_slices;  // bytes

/// How dQ of a tile is divided among consumers with separate keys: by rows first, then by columns.
constexpr i32 grad_q_row_groups = block_q / group_rows, grad_q_column_groups = consumers / grad_q_row_groups;
constexpr i32 grad_q_columns = layout.d / grad_q_column_groups;
static_assert(block_q % group_rows == 0 && consumers % grad_q_row_groups == 0);

struct Sm90BackwardShared {
  Barrier k_full, v_full;
  Barrier q_full[q_stages], q_empty[q_stages];                      // with LSE
  Barrier grad_o_full[grad_o_stages], grad_o_empty[grad_o_stages];  // with D
  static constexpr i32 parts = grad_q_is_shared ? grad_q_slices : consumers;
  Barrier grad_q_full[parts], grad_q_empty[parts];
  u32 blocks_before;  // at the tile of dQ of a pair that adds from registers; 0: it stores
  SeenTiles seen_tiles;
  // With dropout: for each consumer, call of Philox in a group of keys, and pair of queries, which of its
  // keys' 16 weights are kept, the first query's in the low half.
  u32 kept[config::dropout ? consumers : 1][config::dropout ? philox::calls_per_group : 1]
          [config::dropout ? block_q / 2 : 1];

  /// Called by one warp or more.
  REGARD_DEVICE void init() {
    if (threadIdx.x == 0) {
      k_full.init(1);
      v_full.init(1);
      for (i32 i = 0; i < q_stages; ++i) q_full[i].init(1), q_empty[i].init(consumer_warps);
      for (i32 i = 0; i < grad_o_stages; ++i) grad_o_full[i].init(1), grad_o_empty[i].init(consumer_warps);
      for (i32 i = 0; i < parts; ++i) grad_q_full[i].init(4), grad_q_empty[i].init(1);
    }
    Barrier::make_visible();
  }
};
static_assert(sizeof(Sm90BackwardShared) <= layout.static_bytes());

/// Named barriers of a pair: dS of a tile is ready, weights are ready, dS is ready for the warpgroup that
/// makes it and, from the last number on, one of the two may add its dQ to memory. Of consumers with separate
/// keys, one for each: its turn at the matrix units begins; and one for each: what dropout keeps is known.
constexpr i32 ds_there = 1, weights_there = 2, own_ds_there = 3, grad_q_granted = 4;
constexpr i32 turn_of_consumer = 1, kept_of_consumer = turn_of_consumer + consumers;
constexpr i32 granted_threads = 128 + wave;  // at the last: a consumer and the warp that grants

/// Tiles one after the other.
class Sm90BackwardMemory {
 public:
  REGARD_DEVICE explicit Sm90BackwardMemory(const void* dynamic) {
    constexpr u32 alignment = Sm90Boxes::alignment;
    start_ = (shared_address(dynamic) + alignment - 1) / alignment * alignment;
  }
  REGARD_DEVICE u32 k() const { return start_; }
  REGARD_DEVICE u32 v() const { return k() + static_cast<u32>(layout.k); }
  REGARD_DEVICE u32 q(i32 slot) const { return v() + static_cast<u32>(layout.v + slot * layout.q); }
  REGARD_DEVICE u32 grad_o(i32 slot) const { return q(q_stages) + static_cast<u32>(slot * layout.grad_o); }
  REGARD_DEVICE u32 ds(i32 slot) const { return grad_o(grad_o_stages) + static_cast<u32>(slot * layout.ds); }
  REGARD_DEVICE u32 weights() const { return ds(ds_stages); }
  REGARD_DEVICE u32 grad_q(i32 slice) const {
    return weights() + static_cast<u32>(layout.weights) + slice * grad_q_slice;
  }
  REGARD_DEVICE u32 lse(i32 slot) const {
    return grad_q(grad_q_slices) + static_cast<u32>(slot * layout.row_numbers);
  }
  REGARD_DEVICE u32 delta(i32 slot) const {
    return lse(q_stages) + static_cast<u32>(slot * layout.row_numbers);
  }

 private:
  u32 start_;
};

}  // namespace regard
