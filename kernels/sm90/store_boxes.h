// Stores O of a warp through shared memory: boxes of its 16 rows are written over its Q, and from there
// stored by TMA.
#pragma once

#include "kernels/sm90/mapped_rows.h"
#include "kernels/sm90/ptx/stmatrix.h"
#include "kernels/sm90/shared.h"
#include "kernels/sm90/work.h"

namespace regard {

/// By whole warps. `address`: the address of the warpgroup's Q.
class BoxedOutput {
 public:
  static constexpr i32 rows = Sm90ForwardLayout::warp_rows;

  REGARD_DEVICE BoxedOutput(u32 address, const TensorMap& map) : map_(map) {
    address_ = address + warp() * rows * box_bytes;
  }

  /// Rows `threadIdx.x % wave / 4` and that plus 8, scaled and rounded.
  template <i32 columns>
  REGARD_DEVICE void take(const float (&o)[columns / 2], const float (&scale)[2]) {
    const u32 lane = threadIdx.x % wave, row = lane % 16;
    // A row has eight 16-byte parts, whose order the swizzle changes by row.
    const u32 first = address_ + row * box_bytes + ((lane / 16 ^ row % 8) << 4);
#pragma unroll
    for (i32 i = 0; i < columns / 16; ++i) {
      u32 words[4];
#pragma unroll
      for (i32 j = 0; j < 4; ++j)
        words[j] = pair<config::out>(o[8 * i + 2 * j] * scale[j % 2], o[8 * i + 2 * j + 1] * scale[j % 2]);
      stmatrix((first ^ i % 4 * 32) + i / 4 * group_rows * box_bytes, words[0], words[1], words[2], words[3]);
    }
    make_visible_to_products();
    __syncwarp();
  }

  /// Stores all rows that the sequence has.
  REGARD_DEVICE void store(const Sm90ForwardWork& work, i32 first_row, bool ragged,
                           i32 rows_per_batch) const {
    if (threadIdx.x % wave != 0) return;
    const Sequence32& s = work.sequence;
    const MappedRows o{map_, ragged, s.batch, s.batch * rows_per_batch + s.first_q, s.sq};
#pragma unroll
    for (i32 box = 0; box < boxes; ++box)
      o.store(address_ + box * group_rows * box_bytes, box * layout.columns, work.head, first_row);
    end_stored_boxes();
  }

  /// Stores again the rows that have a bit in `row_mask`: rare, so small rather than fast. `address`: that of
  /// the first row.
  REGARD_DEVICE void store_some(u32 row_mask, u16* address, i64 row_stride) const {
    if (threadIdx.x % wave == 0) wait_until_boxes_are_stored();
    __syncwarp();
#pragma unroll 1
    for (i32 i = threadIdx.x % wave; i < rows * static_cast<i32>(config::dv); i += wave) {
      const u32 row = i / static_cast<u32>(config::dv), column = i % static_cast<u32>(config::dv);
      if ((row_mask >> row & 1) == 0) continue;
      const u32 part = column / 8 % 8 ^ row % 8;
      address[row * row_stride + column] = load_half(address_ + column / 64 * group_rows * box_bytes +
                                                     row * box_bytes + part * 16 + column % 8 * 2);
    }
    __syncwarp();
  }

 private:
  static constexpr i32 boxes = static_cast<i32>(layout.dv / layout.columns);

  REGARD_DEVICE static u32 warp() { return threadIdx.x / wave % 4; }
  REGARD_DEVICE static u16 load_half(u32 address) {
    u16 x;
    asm volatile("ld.shared.u16 %0, [%1];" : "=h"(x) : "r"(address) : "memory");
    return x;
  }

  const TensorMap& map_;
  u32 address_;
};

}  // namespace regard
