// The schedule that the plan passes to append.cu.
#pragma once

#include "kernels/kernel_arguments.h"

namespace regard {

struct PortableAppendSchedule {
  i64 lanes_of_row = 1;    // a power of two up to a wave; each has neighbouring columns
  i64 heads_together = 1;  // of a token, one after the other by the same lanes
};

using PortableAppendArguments = KernelArguments<PortableAppendSchedule>;

/// Columns of a lane.
constexpr i32 append_width = 8;

}  // namespace regard
