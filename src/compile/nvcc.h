// nvcc as a toolchain, where NVRTC is missing: the same kernels from the same sources.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "compile/compiler_memory.h"
#include "compile/toolchain.h"

namespace regard {

/// In CUDA_HOME (`cuda_home`, can be empty), then on `path`. `memory` can be null.
Result<std::unique_ptr<Toolchain>> find_nvcc(const std::string& cuda_home, const std::string& path,
                                             CompilerMemory* memory = nullptr);

/// What identifies a build of nvcc in the output of `nvcc --version`: "nvcc release 13.0, V13.0.88; Build
/// ...".
std::string nvcc_identity(std::string_view version);

}  // namespace regard
