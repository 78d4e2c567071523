// Products that the warpgroups of a block of backward.cu begin, and the operations by which they share them.
#pragma once

#include "kernels/sm90/backward_scores.h"
#include "kernels/sm90/backward_shared.h"
#include "kernels/sm90/ptx/stmatrix.h"
#include "kernels/sm90/ptx/wgmma.h"

namespace regard {

constexpr i32 step_bytes = 32, steps_per_box = box_bytes / step_bytes;  // along rows
constexpr i32 step_rows = 16;                                           // along rows that are k
constexpr i32 steps_d = (config::d + 15) / 16, steps_dv = (config::dv + 15) / 16;
constexpr i32 columns_k = (config::d + 31) / 32 * 32, columns_v = (config::dv + 31) / 32 * 32;

/// Scores or dP, transposed: 64 rows of K or V by the tile's rows of Q or dO.
template <i32 steps>
REGARD_DEVICE void begin_transposed(BackwardScores& sums, u32 keys, u32 queries) {
  const MatrixDescriptor a(keys, 0), b(queries, 0);
  wgmma_fence();
  const auto bytes_to = [](i32 step, i32 rows) {
    return step / steps_per_box * rows * box_bytes + step % steps_per_box * step_bytes;
  };
  multiply_tiles<steps>(
      sums, [&](i32 i) { return a.low_at(bytes_to(i, block_k)); },
      [&](i32 i) { return b.low_at(bytes_to(i, block_q)); });
  wgmma_commit();
}

/// dV += P^T dO, or dK += dS^T Q, from weights in registers and a tile of queries.
template <i32 n>
REGARD_DEVICE void begin_of_queries(float (&sums)[n], const LeftFragments& weights, u32 queries) {
  const MatrixDescriptor b(queries, block_q * box_bytes);
  wgmma_fence();
  multiply_p(sums, weights, [&](i32 i) { return b.low_at(i * step_rows * box_bytes); });
  wgmma_commit();
}

/// dS of 64 keys: a row of them for each query.
REGARD_DEVICE void store_ds(u32 address, const LeftFragments& ds) {
  const u32 lane = threadIdx.x % wave, warp = threadIdx.x / wave % 4, query = lane / 16 * 8 + lane % 8,
            vector = 2 * warp + lane / 8 % 2;
  const u32 first = address + query * box_bytes + ((vector ^ query % 8) << 4);
#pragma unroll
  for (i32 i = 0; i < block_q / step_rows; ++i) stmatrix_trans(first + i * step_rows * box_bytes, ds[i]);
  make_visible_to_products();
}

/// Arrives once all lanes of the warp have read the memory that the barrier guards.
REGARD_DEVICE void arrive_by_warp(Barrier& barrier) {
  __syncwarp();
  if (threadIdx.x % wave == 0) barrier.arrive();
}

}  // namespace regard
