// The schedule that the plan passes to merge.cu.
#pragma once

#include "kernels/kernel_arguments.h"

namespace regard {

constexpr i32 merge_width = 8;    // neighbouring columns, loaded by one or two vector instructions
constexpr i32 merge_vectors = 4;  // of a thread

struct PortableMergeSchedule {
  i64 parts = 1;
  i32 threads_of_row = 1;  // they loop over its columns
  i32 rows_of_block = 1;   // whole rows, so that all of a row's threads wait for each other
};

using PortableMergeArguments = KernelArguments<PortableMergeSchedule>;

}  // namespace regard
