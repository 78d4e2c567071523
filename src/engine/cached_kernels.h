// What the cache's manifests say of kernels, for lists: which are there, and what their compiler reported.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "compile/resources.h"

namespace regard {

/// Kernel texts, each with its resources; a CPU's has none. Of several entries for one kernel, the last used
/// one. None where REGARD_CACHE=off.
std::map<std::string, std::optional<Resources>> cached_kernels();

}  // namespace regard
