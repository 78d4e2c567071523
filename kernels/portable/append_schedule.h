// The schedule that the plan passes to append.cu.
#pragma once

#include "kernels/inline.h"
#include "kernels/kernel_arguments.h"

namespace regard {

struct PortableAppendSchedule {
  i64 lane_bits = 0;  // a row has 2^lane_bits lanes, up to a wave
  i64 head_bits = 0;  // by which 2^head_bits heads of a token are handled, at most append_heads
};

using PortableAppendArguments = KernelArguments<PortableAppendSchedule>;

/// Neighbouring columns that a lane reads at once, and all that it reads of a row up to a wave's width.
constexpr i32 append_width = 8, append_columns_of_lane = 2 * append_width;

/// The most heads whose keys and values a lane reads at once.
constexpr REGARD_INLINE i32 append_heads(i64 bytes_of_number) {
  return bytes_of_number > 2 ? 1 : 2;
}

}  // namespace regard
