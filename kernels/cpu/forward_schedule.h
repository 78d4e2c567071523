// How the plan divides forward on a CPU (forward.cpp) into blocks.
#pragma once

#include "kernels/split_keys.h"

namespace regard {

struct CpuForwardSchedule : SplitKeys {
  i64 pack_gqa = 1;      // query heads of one K/V head whose rows share blocks
  i64 block_rows = 0;    // query rows per block, whole tiles, at most config::block_q
  i64 whole_blocks = 0;  // blocks of rows of all heads; later ones are cut into parts
  i64 part_rows = 0;     // query rows of such a part, whole tiles; block_rows: none is cut
  i64 side_by_side = 1;  // blocks that run at once
};

using CpuForwardArguments = KernelArguments<CpuForwardSchedule>;

}  // namespace regard
