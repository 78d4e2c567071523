// The schedule that the plan passes to append.cu.
#pragma once

#include "kernels/kernel_arguments.h"

namespace regard {

struct PortableAppendSchedule {
  i64 lane_bits = 0;  // 2^lane_bits lanes share a row, at most a wave
  i64 head_bits = 0;  // and handle 2^head_bits heads of a token, one after the other
};

using PortableAppendArguments = KernelArguments<PortableAppendSchedule>;

/// Neighbouring columns that a lane reads at once, and all that it reads of a row up to a wave's width.
constexpr i32 append_width = 8, append_columns_of_lane = 2 * append_width;

}  // namespace regard
