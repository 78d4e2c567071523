// hiprtc as a toolchain for AMD GPUs where there is no clang: that of ROCm 6.4 or later, run in this process.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "compile/compiler_memory.h"
#include "compile/rtc_library.h"
#include "compile/toolchain.h"

namespace regard {

/// Only `setting` when it is not empty; else the wheels of ROCm and of PyTorch for ROCm in any of `packages`
/// (folders like site-packages), ROCm's folder (`rocm_path`, which can be empty, and the usual one), and the
/// system's loader. Preferred ones first.
std::vector<RtcLocation> hiprtc_locations(const std::string& setting, std::span<const std::string> packages,
                                          const std::string& rocm_path);

/// The first that opens; it is an error if that is too old. If none opens, the error lists what was searched.
/// The identity is read from what it compiles, now or in an earlier process; `memory` can be null.
Result<std::unique_ptr<Toolchain>> find_hiprtc(std::span<const RtcLocation>,
                                               CompilerMemory* memory = nullptr);

/// The compilers and the linker that a code object names: "AMD clang version 19.0.0git (…); Linker: …".
std::string hiprtc_identity(std::span<const std::byte> code_object);

}  // namespace regard
