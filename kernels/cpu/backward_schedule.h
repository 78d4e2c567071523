// How the plan divides backward on a CPU (backward_delta.cpp, backward.cpp, backward_convert.cpp), and what
// the stages pass to each other in the workspace.
#pragma once

#include "kernels/kernel_arguments.h"

namespace regard {

struct CpuBackwardSchedule {
  i64 split_keys = 0;    // keys that one block handles
  i64 key_blocks = 0;    // steps into which the keys of a head are cut
  i64 query_parts = 1;   // parts of the queries with separate sums, 1 = not cut
  i64 part_queries = 0;  // rows per part
  i64 part_heads = 0;    // query heads of a group per part
  i64 parts_apart = 0;   // 1: each part has its own blocks, 0: each block handles all parts
  i64 side_by_side = 1;  // blocks that run at once

  float* delta = nullptr;              // rowsum(dO * O), [b, hq, sq] (varlen [hq, tq])
  float* grad_q_sum = nullptr;         // [b, hq, sq, d rounded up to 16] (varlen [hq, tq, ..]), or transposed
  float* grad_q_earlier = nullptr;     // of the previous blocks of keys (long_sum.h); null: no sum is long
  i64* progress = nullptr;             // [b, hk, query_parts, key_blocks], 64 bytes apart (backward_order.h)
  float* grad_k_partial = nullptr;     // of separate parts: [query_parts, b, hk, sk, d rounded up to 16]
  float* grad_v_partial = nullptr;     // [query_parts, b, hk, sk, dv rounded up to 16]
  float* grad_bias_partial = nullptr;  // fp32 image of a broadcast bias gradient
  float* grad_bias_lost = nullptr;     // rounding errors of that image; null: few heads share the bias
};

using CpuBackwardArguments = KernelArguments<CpuBackwardSchedule>;

}  // namespace regard
