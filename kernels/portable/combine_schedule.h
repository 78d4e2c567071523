// The schedule that the plan passes to combine.cu.
#pragma once

#include "kernels/split_keys.h"

namespace regard {

struct PortableCombineSchedule : SplitKeys {
  i64 pack_gqa = 1;  // neighbouring heads whose rows a block may have
};

using PortableCombineArguments = KernelArguments<PortableCombineSchedule>;

}  // namespace regard
