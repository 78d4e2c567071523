// Loads and stores of tiles by the tensor memory accelerator, and registers moved between warpgroups.
#pragma once

#include "kernels/sm90/boxes.h"
#include "kernels/sm90/ptx/barrier.h"

namespace regard {

/// The result of cuTensorMapEncodeTiled: a tensor viewed as [batch, head, row, column], in boxes of 128-byte
/// rows, swizzled, with zeros outside.
struct alignas(64) TensorMap {
  u64 words[16];
};

REGARD_DEVICE void prefetch(const TensorMap& map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}

/// Loads one box into shared memory; `full` counts its bytes.
REGARD_DEVICE void load_box(u32 to, const TensorMap& map, const Barrier& full, i32 column, i32 row, i32 head,
                            i32 batch) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, "
      "%6}], "
      "[%2];" ::"r"(to),
      "l"(&map), "r"(full.address()), "r"(column), "r"(row), "r"(head), "r"(batch)
      : "memory");
}

/// load_box into both blocks of a cluster, at the same address in each; the `full` of each counts its bytes.
REGARD_DEVICE void load_box_in_both(u32 to, const TensorMap& map, const Barrier& full, i32 column, i32 row,
                                    i32 head, i32 batch) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], "
      "[%1, {%3, %4, %5, %6}], [%2], %7;" ::"r"(to),
      "l"(&map), "r"(full.address()), "r"(column), "r"(row), "r"(head), "r"(batch),
      "h"(static_cast<u16>(0b11))
      : "memory");
}

/// load_box for a map whose rows are counted over all sequences: loads from the `count` rows starting at
/// `first`, with zeros past them. plan/kernels/sm90_boxes.cpp explains how such a map is made.
REGARD_DEVICE void load_ragged_box(u32 to, const TensorMap& map, const Barrier& full, i32 column, i32 row,
                                   i32 first, i32 count, i32 head) {
  constexpr i32 most = Sm90Boxes::most_map_rows;
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, "
      "%6, %7}], "
      "[%2];" ::"r"(to),
      "l"(&map), "r"(full.address()), "r"(column), "r"(most - count + row), "r"(first + count), "r"(most),
      "r"(head)
      : "memory");
}

/// `bytes` contiguous bytes; both addresses and the count are multiples of 16.
REGARD_DEVICE void load_bytes(u32 to, const void* from, u32 bytes, const Barrier& full) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
      "l"(from), "r"(bytes), "r"(full.address())
      : "memory");
}

/// Stores one box from shared memory; what is outside the tensor is left out.
REGARD_DEVICE void store_box(const TensorMap& map, u32 from, i32 column, i32 row, i32 head, i32 batch) {
  asm volatile(
      "cp.async.bulk.tensor.4d.global.shared::cta.bulk_group [%0, {%2, %3, %4, %5}], [%1];" ::"l"(&map),
      "r"(from), "r"(column), "r"(row), "r"(head), "r"(batch)
      : "memory");
}
/// store_box for a map whose rows are counted over all sequences.
REGARD_DEVICE void store_ragged_box(const TensorMap& map, u32 from, i32 column, i32 row, i32 first, i32 count,
                                    i32 head) {
  constexpr i32 most = Sm90Boxes::most_map_rows;
  asm volatile(
      "cp.async.bulk.tensor.5d.global.shared::cta.bulk_group [%0, {%2, %3, %4, %5, %6}], [%1];" ::"l"(&map),
      "r"(from), "r"(column), "r"(most - count + row), "r"(first + count), "r"(most), "r"(head)
      : "memory");
}
/// Stores contiguous bytes of shared memory to global memory; in multiples of 16.
REGARD_DEVICE void store_bytes(void* to, u32 from, u32 bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to), "r"(from), "r"(bytes)
               : "memory");
}
/// Adds contiguous fp32 numbers in shared memory to those in global memory; likewise in multiples of 16
/// bytes.
REGARD_DEVICE void add_floats(float* to, u32 from, u32 bytes) {
  asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;" ::"l"(to),
               "r"(from), "r"(bytes)
               : "memory");
}
/// Ends the group of this thread's stores so far; the next two wait until all groups but the last `pending`
/// have read their boxes, and until all stores are done.
REGARD_DEVICE void end_stored_boxes() {
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
template <int pending = 0>
REGARD_DEVICE void wait_until_boxes_are_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(pending) : "memory");
}
REGARD_DEVICE void wait_until_boxes_are_stored() {
  asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

/// Orders what other blocks are known to have done in memory before what this unit does there from now on.
REGARD_DEVICE void order_memory_before_boxes() {
  asm volatile("fence.proxy.async.global;" ::: "memory");
}

/// setmaxnreg: the registers that each thread has from here on. Whole warpgroups call these.
template <int count>
REGARD_DEVICE void reg_alloc() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(count));
}
template <int count>
REGARD_DEVICE void reg_dealloc() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(count));
}

}  // namespace regard
