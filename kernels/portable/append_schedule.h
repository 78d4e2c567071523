// The schedule that the plan passes to append.cu.
#pragma once

#include "kernels/kernel_arguments.h"

namespace regard {

struct PortableAppendSchedule {
  i64 lanes_of_row = 1;    // a power of two up to a wave
  i64 heads_together = 1;  // of a token, by the same lanes
};

using PortableAppendArguments = KernelArguments<PortableAppendSchedule>;

/// Neighbouring columns that a lane reads at once, and all that it reads of a row up to a wave's width.
constexpr i32 append_width = 8, append_columns_of_lane = 2 * append_width;

}  // namespace regard
