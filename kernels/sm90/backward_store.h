// Stores dK and dV of a consumer's keys from registers: rounded or, if several blocks share the keys, added
// to fp32 sums.
#pragma once

#include "kernels/cuda/add.h"
#include "kernels/sm90/backward_work.h"
#include "kernels/sm90/quad_row.h"
#include "kernels/workspace_rows.h"

namespace regard {

/// The destination of gradients of K or of V: sums or, if there are none, rows of the tensor.
struct GradientOfKeys {
  float* sums;
  i64 sum_columns;
  const Rows& rows;
};

/// One row for each key of the warp; `key` is the thread's first one, the second is 8 further.
template <i32 end, i32 columns>
REGARD_DEVICE void store_gradient(const BackwardArguments& a, const Sm90BackwardWork& work,
                                  const GradientOfKeys& to, i32 key, const float (&sums)[columns / 2],
                                  float scale) {
  const Sequence& s = work.sequence;
#pragma unroll
  for (i32 half = 0; half < 2; ++half) {
    const i64 row = key + 8 * half;
    if (to.sums) {
      if (row >= s.sk) continue;
      float* const sum = to.sums + key_number(a, s, work.kv_head, row) * to.sum_columns + threadIdx.x % 4 * 2;
#pragma unroll
      for (i32 i = 0; i < columns / 8; ++i)
        add(sum + 8 * i, {sums[4 * i + 2 * half], sums[4 * i + 2 * half + 1]});
      continue;
    }
    u32 x[columns / 32][4];
    take_row<config::dtype, columns>(x, sums, half, scale);
    if (row >= s.sk) continue;
    u16* const there = row_of<u16>(to.rows, work.batch, work.kv_head, s.first_k + row);
    const i32 first = threadIdx.x % 4 * 8;
#pragma unroll
    for (i32 i = 0; i < columns / 32; ++i)
      if (32 * i + first < end) store_16_bytes(there + 32 * i + first, x[i]);
  }
}

}  // namespace regard
