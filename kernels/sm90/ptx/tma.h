// Loads of tiles by the tensor memory accelerator, and registers moved between warpgroups.
#pragma once

#include "kernels/sm90/forward_layout.h"
#include "kernels/sm90/ptx/barrier.h"

namespace regard {

/// What cuTensorMapEncodeTiled writes: a tensor seen as [batch, head, row, column], boxes of rows of 128
/// bytes, swizzled, zeros outside.
struct alignas(64) TensorMap {
  u64 words[16];
};

REGARD_DEVICE void prefetch(const TensorMap& map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}

/// One box into shared memory; `full` counts its bytes.
REGARD_DEVICE void load_box(u32 to, const TensorMap& map, const Barrier& full, i32 column, i32 row, i32 head,
                            i32 batch) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, "
      "%6}], "
      "[%2];" ::"r"(to),
      "l"(&map), "r"(full.address()), "r"(column), "r"(row), "r"(head), "r"(batch)
      : "memory");
}

/// The same into both blocks of a cluster, at the same place in each; each one's `full` counts its bytes.
REGARD_DEVICE void load_box_in_both(u32 to, const TensorMap& map, const Barrier& full, i32 column, i32 row,
                                    i32 head, i32 batch) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], "
      "[%1, {%3, %4, %5, %6}], [%2], %7;" ::"r"(to),
      "l"(&map), "r"(full.address()), "r"(column), "r"(row), "r"(head), "r"(batch),
      "h"(static_cast<u16>(0b11))
      : "memory");
}

/// The same of a map whose rows are counted over all sequences: of the `count` rows behind `first`, zeros
/// past them. forward_layout.h says how such a map is made.
REGARD_DEVICE void load_ragged_box(u32 to, const TensorMap& map, const Barrier& full, i32 column, i32 row,
                                   i32 first, i32 count, i32 head) {
  constexpr i32 most = Sm90TensorMap::most_rows;
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, "
      "%6, %7}], "
      "[%2];" ::"r"(to),
      "l"(&map), "r"(full.address()), "r"(column), "r"(most - count + row), "r"(first + count), "r"(most),
      "r"(head)
      : "memory");
}

/// Registers per thread from here on; both by whole warpgroups.
template <int count>
REGARD_DEVICE void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(count));
}
template <int count>
REGARD_DEVICE void give_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(count));
}

}  // namespace regard
