// Kernels compiled into the library by regard-build (src/aot) from the default profile.
#pragma once

#include <span>
#include <string_view>

#include "device/cpu/cpu.h"

namespace regard {

struct BuiltInKernel {
  std::string_view key;  ///< print(KernelKey)
  cpu::KernelFunction function;
};

/// Sorted by key. Generated.
std::span<const BuiltInKernel> built_in_kernels();

/// nullptr when the library has no such kernel.
cpu::KernelFunction find_built_in(std::string_view key);

}  // namespace regard
