// The warps that transpose tiles of V of 8-bit types: products take those only with keys along the rows.
#pragma once

#include "kernels/sm90/ptx/stmatrix.h"
#include "kernels/sm90/shared.h"

namespace regard {

/// Works in blocks of 32 keys by 16 columns. A transposed load gives a thread two columns of two keys in one
/// register: its bytes for the first column are keys 2 t, 2 t + 1 (t = lane % 4), so two registers make the
/// four neighbours 4 t .. 4 t + 3 of a key order that softmax.h uses for the weights too. Of the 16 columns
/// the even ones become the first eight rows, so that no two rows of a store hit the same bank; store.h
/// relies on that order.
class Transposer {
 public:
  REGARD_DEVICE Transposer(Sm90ForwardShared& shared, Sm90ForwardMemory memory)
      : shared_(shared), memory_(memory) {}

  REGARD_DEVICE void run() {
#pragma unroll 1
    for (u32 turn = 0;; ++turn) {
      shared_.turn_full[turn % 2].wait(turn / 2 % 2);
      const Turn& given = shared_.turn[turn % 2];
      if (given.work.head < 0) return;
#pragma unroll 1
      for (i32 tile = given.tiles.start(); tile >= 0; tile = given.tiles.next(tile)) {
        const i32 slot = ring_.slot;
        shared_.v_full[slot].wait(ring_.parity);
        shared_.transposed_empty[slot].wait(ring_.parity ^ 1);
        transpose_tile(memory_.v(slot), memory_.transposed(slot));
        make_visible_to_products();
        arrive(shared_.v_empty[slot]);
        arrive(shared_.transposed_full[slot]);
        ring_.advance();
      }
      arrive(shared_.turn_done[turn % 2]);
    }
  }

 private:
  static constexpr i32 bands = columns / 16, steps = block_k / 32;
  static constexpr i32 together = 4;  // loads that are in flight at a time

  /// Each warp takes every third band of 16 columns. Everything that depends on the lane is computed once;
  /// swizzled addresses of a row differ from it by an exclusive or.
  REGARD_DEVICE static void transpose_tile(u32 from, u32 to) {
    const u32 thread = thread_read_anew(), lane = thread % wave, swizzle = lane % 8 * 16;
    const u32 first = from + lane * box_bytes + swizzle;
    const u32 first_to = to + lane % 16 * box_bytes + (lane / 16 * 16 ^ swizzle);
#pragma unroll 1
    for (i32 band = static_cast<i32>(thread / wave) - 1; band < bands; band += helper_warps) {
      const u32 source = (first ^ band % 8 * 16) + band / 8 * (block_k * box_bytes);
      const u32 target = first_to + band * (16 * box_bytes);
#pragma unroll
      for (i32 i = 0; i < steps; i += together) {
        u32 x[together][4];
#pragma unroll
        for (i32 j = 0; j < together && i + j < steps; ++j)
          ldmatrix_trans(x[j], source + (i + j) * (32 * box_bytes));
#pragma unroll
        for (i32 j = 0; j < together && i + j < steps; ++j) {
          constexpr u32 even = 0x6420, odd = 0x7531;  // bytes of two registers
          const i32 step = i + j, box = step / steps_per_box, inside = step % steps_per_box * step_bytes;
          stmatrix((target ^ inside) + box * (columns * box_bytes), __byte_perm(x[j][0], x[j][1], even),
                   __byte_perm(x[j][0], x[j][1], odd), __byte_perm(x[j][2], x[j][3], even),
                   __byte_perm(x[j][2], x[j][3], odd));
        }
      }
    }
  }

  /// threadIdx.x, read again so that nothing derived from it stays in a register between tiles: this warp
  /// has few.
  REGARD_DEVICE static u32 thread_read_anew() {
    u32 thread;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
    return thread;
  }
  REGARD_DEVICE static void arrive(Barrier& barrier) {
    __syncwarp();
    if (threadIdx.x % wave == 0) barrier.arrive();
  }

  Sm90ForwardShared& shared_;
  Sm90ForwardMemory memory_;
  Ring<stages> ring_;
};

}  // namespace regard
