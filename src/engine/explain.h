// An explanation with what the tiers know of the plan's kernels.
#pragma once

#include <string>
#include <string_view>

#include "plan/plan.h"

namespace regard {

/// As "text", "all" or "json". Of each kernel: where it would come from, why not from the tiers before, and,
/// for a GPU's that is there, what its compiler reported. Nothing is compiled for it.
std::string describe(const Explanation&, std::string_view format);

}  // namespace regard
