// What is made ahead of time, into the library (regard-build) or into a cache (regard prebuild): which
// kernels.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"

namespace regard::aot {

struct Wanted {
  std::vector<std::string> targets, profiles;
  std::size_t sample = 0;  ///< so many of each target, evenly spread; 0: all
};

/// The texts of a profile's kernels on a target.
using ListKernels =
    std::function<Result<std::vector<std::string>>(const std::string& target, const std::string& profile)>;

/// Target by target, each sorted, and each kernel once, as profiles share many. A target without any is an
/// error.
Result<std::vector<std::string>> kernels_of(const Wanted&, const ListKernels&);

}  // namespace regard::aot
