// How the plan divides decode.cu into blocks.
#pragma once

#include "kernels/split_keys.h"

namespace regard {

struct PortableDecodeSchedule : SplitKeys {
  i64 pack_gqa = 1;  // query heads that share a K/V head
};

using PortableDecodeArguments = KernelArguments<PortableDecodeSchedule>;

}  // namespace regard
