// How the plan divides portable forward (forward.cu) into blocks.
#pragma once

#include "kernels/split_keys.h"

namespace regard {

struct PortableForwardSchedule : SplitKeys {
  i64 side_by_side = 1;  // (batch, head) pairs whose blocks of rows run together
  i64 pack_gqa = 1;      // pack_gqa.h
};

using PortableForwardArguments = KernelArguments<PortableForwardSchedule>;

}  // namespace regard
