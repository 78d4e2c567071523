// NVRTC's shared library: where it is looked for.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "compile/rtc_library.h"

namespace regard {

extern const RtcMake nvrtc_make;

/// Only `setting` when it is not empty; else the wheel nvidia-cuda-nvrtc in any of `packages` (folders like
/// site-packages), CUDA_HOME (`cuda_home`, can be empty), and the system's loader. Preferred ones first.
std::vector<RtcLocation> nvrtc_locations(const std::string& setting, std::span<const std::string> packages,
                                         const std::string& cuda_home);

/// The first that opens. The error lists what was searched.
Result<RtcLibrary> open_nvrtc(std::span<const RtcLocation>);

}  // namespace regard
