// What the cache's manifests say about kernels, for lists: which there are, and what their compiler reported.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "compile/resources.h"

namespace regard {

/// Kernel texts, each with its resources; a CPU kernel has none. Of several entries for one kernel, the most
/// recently used. Empty where REGARD_CACHE=off.
std::map<std::string, std::optional<Resources>> cached_kernels();

}  // namespace regard
