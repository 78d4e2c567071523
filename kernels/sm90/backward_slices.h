// How a pair of warpgroups (backward_pair.h) brings dQ of a tile to memory, in slices of 64 columns: through
// shared memory, from where add_grad_q adds it or, if there is no room, from registers.
#pragma once

#include "kernels/cuda/add.h"
#include "kernels/sm90/backward_products.h"
#include "kernels/sm90/ptx/shared_floats.h"

namespace regard {

constexpr i32 grad_q_slice_columns = layout.d / grad_q_slices;
using GradQSlice = float[grad_q_slice_columns / 2];

/// Those of one warpgroup and tile.
template <bool through_shared_memory>
class GradQSlicesOf {
 public:
  /// `number`: how many tiles there were before.
  REGARD_DEVICE GradQSlicesOf(Sm90BackwardShared& shared, const Sm90BackwardMemory& memory, u32 number, i32)
      : shared_(shared), to_(memory.grad_q(0) + threadIdx.x % 128 * 16), parity_(number % 2 ^ 1) {}

  REGARD_DEVICE void wait(const BackwardArguments&, const Sm90BackwardWork&, const QueryTileCursor&) {}
  REGARD_DEVICE void add(i32 slice, const GradQSlice& dq) const {
    shared_.grad_q_empty[slice].wait(parity_);
    const u32 to = to_ + slice * grad_q_slice;
#pragma unroll
    for (i32 i = 0; i < grad_q_slice_columns / 8; ++i)
      store_shared(to + i * 128 * 16, dq[4 * i], dq[4 * i + 1], dq[4 * i + 2], dq[4 * i + 3]);
    make_visible_to_products();
    arrive_by_warp(shared_.grad_q_full[slice]);
  }
  REGARD_DEVICE void end() const {}

 private:
  Sm90BackwardShared& shared_;
  u32 to_, parity_;
};

template <>
class GradQSlicesOf<false> {
 public:
  REGARD_DEVICE GradQSlicesOf(Sm90BackwardShared& shared, const Sm90BackwardMemory&, u32, i32 consumer)
      : shared_(shared), consumer_(consumer) {}

  /// Waits until the block is allowed to add dQ of the tile to memory.
  REGARD_DEVICE void wait(const BackwardArguments& a, const Sm90BackwardWork& work,
                          const QueryTileCursor& tile) {
    const QueryTile of = tile.at(work);
    const i64 number = first_tile(a, work.sequence, of.head) + of.index;
    named_sync(grad_q_granted + consumer_, granted_threads);
    to_ = a.grad_q_sum + number * (block_q * static_cast<i64>(layout.d)) + threadIdx.x % 128 * 4;
    stores_ = shared_.blocks_before == 0;
  }
  REGARD_DEVICE void add(i32 slice, const GradQSlice& dq) const {
    float* const to = to_ + slice * (block_q * grad_q_slice_columns);
#pragma unroll
    for (i32 i = 0; i < grad_q_slice_columns / 8; ++i) {
      const float x[2] = {dq[4 * i], dq[4 * i + 1]}, y[2] = {dq[4 * i + 2], dq[4 * i + 3]};
      if (stores_)
        store(to + i * 128 * 4, x, y);
      else
        regard::add(to + i * 128 * 4, x, y);
    }
  }
  REGARD_DEVICE void end() const { arrive_by_warp(shared_.grad_q_full[consumer_]); }

 private:
  Sm90BackwardShared& shared_;
  i32 consumer_;
  float* to_;  // of this thread
  bool stores_;
};

using GradQSlices = GradQSlicesOf<grad_q_is_shared>;

}  // namespace regard
