// What the warpgroups of a block of backward.cu share: tiles in dynamic shared memory, and their barriers.
#pragma once

#include "kernels/sm90/backward_work.h"
#include "kernels/sm90/ptx/barrier.h"
#include "kernels/sm90/ring.h"

namespace regard {

constexpr Sm90BackwardLayout layout(key::d, key::dv, block_q, block_k, key::stages);
constexpr i32 group_rows = Sm90Boxes::group_rows, box_bytes = Sm90Boxes::box_bytes;
constexpr i32 stages = layout.stages, ds_stages = Sm90BackwardLayout::ds_stages,
              grad_q_stages = Sm90BackwardLayout::grad_q_stages;
constexpr i32 consumers = Sm90BackwardLayout::consumers(block_k), consumer_warps = 4 * consumers;
static_assert(key::warps * 32 == Sm90BackwardLayout::threads(block_k) && block_k % group_rows == 0);
static_assert(block_q == group_rows, "dQ of a tile is made by one warpgroup");

/// What one product takes: along rows, and along rows that are k.
constexpr i32 step_bytes = 32, steps_per_box = box_bytes / step_bytes;
constexpr i32 step_rows = 16;

struct Barriers {
  Barrier k_full, v_full;
  Barrier q_full[stages], grad_o_full[stages];  // with LSE, and with D
  Barrier ds_full[ds_stages], ds_empty[ds_stages];

  /// By one thread.
  REGARD_DEVICE void init() {
    k_full.init(1);
    v_full.init(1);
    for (i32 i = 0; i < stages; ++i) q_full[i].init(1), grad_o_full[i].init(1);
    for (i32 i = 0; i < ds_stages; ++i) ds_full[i].init(consumer_warps), ds_empty[i].init(4);
    Barrier::make_visible();
  }
};

/// Tiles one behind the other, and the barriers.
class Memory {
 public:
  /// Its start is a multiple of Sm90Boxes::alignment.
  REGARD_DEVICE explicit Memory(char* dynamic)
      : barriers(*reinterpret_cast<Barriers*>(dynamic + layout.total() - Sm90BackwardLayout::common)),
        start_(shared_address(dynamic)) {}

  Barriers& barriers;

  REGARD_DEVICE u32 k() const { return start_; }
  REGARD_DEVICE u32 v() const { return k() + static_cast<u32>(layout.k); }
  REGARD_DEVICE u32 q(i32 stage) const { return v() + static_cast<u32>(layout.v + stage * layout.q); }
  REGARD_DEVICE u32 grad_o(i32 stage) const { return q(stages) + static_cast<u32>(stage * layout.grad_o); }
  REGARD_DEVICE u32 ds(u32 turn) const {
    return grad_o(stages) + turn % ds_stages * static_cast<u32>(layout.ds);
  }
  REGARD_DEVICE u32 grad_q(u32 slice) const {
    return grad_o(stages) + static_cast<u32>(ds_stages * layout.ds) +
           slice % grad_q_stages * static_cast<u32>(layout.grad_q);
  }
  REGARD_DEVICE u32 lse(i32 stage) const {
    return grad_q(0) + static_cast<u32>(grad_q_stages * layout.grad_q + stage * layout.row_numbers);
  }
  REGARD_DEVICE u32 delta(i32 stage) const {
    return lse(stages) + static_cast<u32>(stage * layout.row_numbers);
  }

 private:
  u32 start_;
};

}  // namespace regard
