// How the plan divides decode on a CPU (decode.cpp) into blocks.
#pragma once

#include "kernels/split_keys.h"

namespace regard {

struct CpuDecodeSchedule : SplitKeys {
  static constexpr i64 most_heads = 8;
  i64 heads = 1;  // K/V heads per block: a divisor of hk, at most most_heads
};

using CpuDecodeArguments = KernelArguments<CpuDecodeSchedule>;

}  // namespace regard
