// NVRTC as a toolchain: machine code for CUDA targets, compiled in this process. Needs no driver, toolkit or
// headers.
#pragma once

#include <memory>

#include "compile/compiler_memory.h"
#include "compile/nvrtc_library.h"
#include "compile/toolchain.h"

namespace regard {

/// The identity contains NVRTC's build, read from what it compiles, now or in an earlier process; `memory`
/// can be null.
Result<std::unique_ptr<Toolchain>> make_nvrtc(const RtcLibrary&, CompilerMemory* memory = nullptr);

/// What identifies a build of NVRTC in the PTX that it writes: "release 13.0, V13.0.88; CL-36424714".
std::string nvrtc_identity(std::string_view ptx);

}  // namespace regard
