// What the cache's manifests say of kernels, for lists and explanations: which are there, and what their
// compiler reported.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "compile/resources.h"
#include "plan/plan.h"

namespace regard {

/// Kernel texts, each with its resources; a CPU's has none. Of several entries for one kernel, the last used
/// one. None where REGARD_CACHE=off.
std::map<std::string, std::optional<Resources>> cached_kernels();

/// An explanation as "text", "all" or "json", with the resources of the plan's kernels where the cache has
/// them.
std::string describe(const Explanation&, std::string_view format);

}  // namespace regard
