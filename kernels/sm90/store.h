// A row of O from the fragments of a quad to memory, wherever it lies.
#pragma once

#include "kernels/sm90/ptx/number.h"

namespace regard {

/// A step of a 2 x 2 turn: lanes with `bit` give their first and take into it, others the second.
REGARD_DEVICE void exchange(u32& first, u32& second, u32 bit) {
  const bool upper = threadIdx.x & bit;
  const u32 other = __shfl_xor_sync(whole_warp, upper ? first : second, bit);
  (upper ? first : second) = other;
}

/// Eight neighbours at once where they lie on 16 bytes; never past dv.
REGARD_DEVICE void store_eight(u16* to, const u32 (&x)[4], i32 column) {
  const bool together = key::dv % 8 == 0 && reinterpret_cast<u64>(to) % 16 == 0;
  if (together && column < key::dv) *reinterpret_cast<uint4*>(to) = make_uint4(x[0], x[1], x[2], x[3]);
  if (together) return;
#pragma unroll
  for (i32 i = 0; i < 8; ++i)
    if (column + i < key::dv) to[i] = static_cast<u16>(x[i / 2] >> i % 2 * 16);
}

/// Row `half` of the thread's two, scaled, rounded, and turned within the quad so that each thread stores
/// eight neighbours. All threads of a warp take part; those of a row that is not `real` store nothing.
template <i32 count>
REGARD_DEVICE void store_row(u16* row, const float (&o)[count], i32 half, float scale, bool real) {
  const i32 lane = threadIdx.x % 4;
#pragma unroll
  for (i32 i = 0; i < count / 4; i += 4) {
    u32 x[4];
#pragma unroll
    for (i32 j = 0; j < 4; ++j)
      x[j] = pair(o[4 * (i + j) + 2 * half] * scale, o[4 * (i + j) + 2 * half + 1] * scale);
    exchange(x[0], x[1], 1);
    exchange(x[2], x[3], 1);
    exchange(x[0], x[2], 2);
    exchange(x[1], x[3], 2);
    const i32 column = (i + lane) * 8;
    if (real) store_eight(row + column, x, column);
  }
}

}  // namespace regard
