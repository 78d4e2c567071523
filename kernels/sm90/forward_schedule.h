// How the plan orders the work of Hopper's forward (forward.cu).
#pragma once

#include "kernels/split_keys.h"

namespace regard {

struct Sm90ForwardSchedule : SplitKeys {
  i32 side_by_side = 1;          // (batch, head) pairs whose blocks of rows run together
  i32 before_last = 0x7fffffff;  // pairs that go side_by_side; the pairs after them go as one group
  // With pack_gqa, the rows of a block that belong to one query head: a power of two.
  i32 rows_of_head = 0;
  i32 box_k = 0;  // the keys of a box in a page
};

using Sm90ForwardArguments = KernelArguments<Sm90ForwardSchedule>;

}  // namespace regard
