// How the plan orders the work of Hopper's forward (forward.cu).
#pragma once

#include "kernels/split_keys.h"

namespace regard {

struct Sm90ForwardSchedule : SplitKeys {
  i32 side_by_side = 1;          // (batch, head) pairs whose blocks of rows run together
  i32 before_last = 0x7fffffff;  // pairs that go side_by_side; the pairs after them go as one group
  i32 row_bits = 0;              // with pack_gqa, a block has 2^row_bits rows of each query head
  i32 box_k = 0;                 // the keys of a box in a page
};

using Sm90ForwardArguments = KernelArguments<Sm90ForwardSchedule>;

}  // namespace regard
