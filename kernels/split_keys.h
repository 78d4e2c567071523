// The keys of a row, if several blocks share them: each has a part, and leaves its O, LSE and, if requested,
// row_max in the workspace. Kernels that take parts begin their schedule with this; it is the whole schedule
// of those that merge them.
#pragma once

#include "kernels/kernel_arguments.h"

namespace regard {

struct SplitKeys {
  i64 splits = 1;                    // parts of the key range, 1 = none
  i64 split_keys = 0;                // keys per part; 0, on GPUs: each block divides the keys that it sees
  float* partial_o = nullptr;        // [splits, b, hq, sq, dv] (varlen: [splits, hq, tq, dv])
  float* partial_lse = nullptr;      // [splits, b, hq, sq]     (varlen: [splits, hq, tq])
  float* partial_row_max = nullptr;  // the same, or null
};

using SplitKeysArguments = KernelArguments<SplitKeys>;

}  // namespace regard
