// The entry point of a CPU kernel.
#pragma once

#include "kernels/arguments.h"

/// One block of the grid. `scratch` is this thread's own, 64-byte aligned, of the size the plan gives.
#define REGARD_KERNEL(name)                                                                       \
  extern "C" __attribute__((visibility("default"))) void name(const regard::Arguments* arguments, \
                                                              long long block, void* scratch)
