// The warpgroup that makes dQ of each tile, of dS that the others leave in shared memory, and adds it to the
// sums in memory. Its first thread loads all tiles: dS of a tile says that the one before is done with.
#pragma once

#include "kernels/sm90/backward_loader.h"
#include "kernels/sm90/ptx/shared_floats.h"
#include "kernels/sm90/ptx/stmatrix.h"
#include "kernels/sm90/ptx/wgmma.h"

namespace regard {

/// The named barrier of this warpgroup.
constexpr i32 grad_q_barrier = 1;

class GradQ {
 public:
  REGARD_DEVICE GradQ(const Memory& memory, const Loader& loader) : memory_(memory), loader_(loader) {}

  REGARD_DEVICE void run(const Work& work) const {
    i32 left = work.tiles() * work.heads;
    if (left == 0) return;
    if (first_thread) loader_.begin(work);
    __syncwarp();
#pragma unroll 1
    for (u32 turn = 0; left > 0; --left, ++turn) {
      memory_.barriers.ds_full[turn % ds_stages].wait(turn / ds_stages % 2);
      if (first_thread && turn > 0) loader_.load_next();
      __syncwarp();
#pragma unroll 1
      for (i32 slice = 0; slice < slices; ++slice) {
        Sums sums;
        multiply(sums, turn, slice);
        add(sums, slice, turn * slices + slice);
      }
      if (threadIdx.x % 32 == 0) memory_.barriers.ds_empty[turn % ds_stages].arrive();
    }
    if (first_thread) wait_until_boxes_are_stored();
  }

 private:
  static constexpr i32 slices = static_cast<i32>(layout.grad_q_slices());
  static constexpr i32 slice_columns = Sm90BackwardLayout::slice_columns(key::d);
  using Sums = float[slice_columns / 2];

  /// Some columns of dQ = dS K.
  REGARD_DEVICE void multiply(Sums& sums, u32 turn, i32 slice) const {
    constexpr i32 box_columns = Sm90BackwardLayout::box_columns;
    const i32 column = slice * slice_columns;
    const SharedOperand a(memory_.ds(turn), 0),
        b(memory_.k() + column / box_columns * block_k * box_bytes + column % box_columns * 2, 0);
    wgmma_fence();
    multiply_tiles<block_k / step_rows, Transposed::b>(
        sums,
        [&](i32 i) {
          return a.low_at(i / steps_per_box * block_q * box_bytes + i % steps_per_box * step_bytes);
        },
        [&](i32 i) { return b.low_at(i * step_rows * box_bytes); });
    wgmma_commit();
    wgmma_wait<0>();
  }

  /// `number` counts slices: their places in shared memory take turns.
  REGARD_DEVICE void add(const Sums& sums, i32 slice, u32 number) const {
    if (first_thread) wait_until_boxes_are_read<grad_q_stages - 1>();
    warpgroup_sync(grad_q_barrier);
    const u32 place = memory_.grad_q(number);
#pragma unroll
    for (i32 i = 0; i < slice_columns / 8; ++i)
      store_shared(place + i * 128 * 16 + threadIdx.x * 16, sums[4 * i], sums[4 * i + 1], sums[4 * i + 2],
                   sums[4 * i + 3]);
    make_visible_to_products();
    warpgroup_sync(grad_q_barrier);
    if (first_thread) loader_.add_slice(place, slice, slice + 1 == slices);
  }

  const Memory& memory_;
  const Loader& loader_;
  const bool first_thread = threadIdx.x == 0;
};

}  // namespace regard
