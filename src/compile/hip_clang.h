// clang as a toolchain for AMD GPUs: a code object from a source that includes nothing, so it needs neither
// ROCm's headers nor its device libraries.
#pragma once

#include <memory>
#include <string>

#include "compile/compiler_memory.h"
#include "compile/toolchain.h"

namespace regard {

/// Where to search for it.
struct HipClangPlaces {
  std::string setting;    ///< REGARD_HIP_CLANG: a program, without options; if it is set, only that one
  std::string rocm_path;  ///< ROCM_PATH, can be empty
  std::string path;       ///< folders for programs with the usual names
  std::string rocm = "/opt/rocm";
};

/// The first clang that is new enough and has AMD's backend and lld: that of the setting, or else ROCm's, or
/// else the newest on the path. The error says of each clang that was found what it lacks. A compile that
/// takes longer than `limit_seconds` is killed. `memory` can be null.
Result<std::unique_ptr<Toolchain>> find_hip_clang(const HipClangPlaces&,
                                                  double limit_seconds = compile_limit_seconds,
                                                  CompilerMemory* memory = nullptr);

}  // namespace regard
