// The schedule that the plan passes to ranges.cu.
#pragma once

#include "kernels/kernel_arguments.h"
#include "kernels/portable/mask_call.h"

namespace regard {

struct PortableRangesSchedule : MaskSchedule {
  i32* ranges_to_write;  // Arguments::ranges
};

using PortableRangesArguments = KernelArguments<PortableRangesSchedule>;

/// Each thread has a row.
constexpr i32 range_threads = 128;

}  // namespace regard
