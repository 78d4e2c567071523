// Stores a row of O from the fragments of a quad to memory.
#pragma once

#include "kernels/sm90/ptx/number.h"
#include "kernels/sm90/quad_row.h"
#include "kernels/sm90/work.h"

namespace regard {

/// A row of the result for a part of the keys, unchanged: fp32, from the threads that hold it.
template <i32 columns>
REGARD_DEVICE void store_part(float* row, const float (&o)[columns / 2], i32 half, float scale) {
  constexpr i32 together = eight_bits ? 4 : 2;  // neighbours in a thread
  static_assert(config::dv % together == 0);
#pragma unroll
  for (i32 i = 0; i < columns / (4 * together); ++i) {
    const i32 column = (4 * i + static_cast<i32>(threadIdx.x % 4)) * together,
              at = 2 * together * i + 2 * half;
    if (column >= config::dv) continue;
    // With 8-bit types, even columns come before odd ones in each 16 (transposer.h).
    if constexpr (eight_bits)
      *reinterpret_cast<float4*>(row + column) = {o[at] * scale, o[at + 4] * scale, o[at + 1] * scale,
                                                  o[at + 5] * scale};
    else
      *reinterpret_cast<float2*>(row + column) = {o[at] * scale, o[at + 1] * scale};
  }
}

/// A row of O from the fragments of a quad, scaled and rounded. Each of its threads takes eight neighbours
/// of every 32 columns.
template <i32 columns>
class OutputRow {
 public:
  /// Row `half` of the thread's two rows; by whole warps.
  REGARD_DEVICE OutputRow(const float (&o)[columns / 2], i32 half, float scale) {
    if constexpr (eight_bits)
      take_transposed(o, half, scale);
    else
      take_row<config::out, columns>(x_, o, half, scale);
  }

  /// Never past dv. Rows are at multiples of 16 bytes (`aligned` in plan/kernels/sm90_boxes.cpp).
  REGARD_DEVICE void store(u16* row) const {
    static_assert(config::dv % 8 == 0);
    const i32 thread = threadIdx.x % 4, first = eight_bits ? thread % 2 * 16 + thread / 2 * 8 : thread * 8;
#pragma unroll
    for (i32 i = 0; i < columns / 32; ++i)
      if (32 * i + first < config::dv) store_16_bytes(row + 32 * i + first, x_[i]);
  }

 private:
  /// Columns in the order of transposer.h: a thread has four neighbours of every 16.
  REGARD_DEVICE void take_transposed(const float (&o)[columns / 2], i32 half, float scale) {
#pragma unroll
    for (i32 i = 0; i < columns / 8; ++i) {
      const i32 at = i / 2 * 8 + i % 2 + 2 * half;
      x_[i / 4][i % 4] = pair<config::out>(o[at] * scale, o[at + 4] * scale);
    }
#pragma unroll
    for (u32(&eight)[4] : x_) {
      exchange(eight[0], eight[2], 1);
      exchange(eight[1], eight[3], 1);
    }
  }

  u32 x_[columns / 32][4];
};

}  // namespace regard
