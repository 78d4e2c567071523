// An explanation, with what the tiers know about the plan's kernels.
#pragma once

#include <string>
#include <string_view>

#include "plan/plan.h"

namespace regard {

/// As "text", "all" or "json". For each kernel: where it would come from, why not from earlier tiers, and,
/// for an available GPU kernel, what its compiler reported. Nothing is compiled for it.
std::string describe(const Explanation&, std::string_view format);

}  // namespace regard
