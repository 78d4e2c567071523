// The cache's kernels as a bundle, for another machine, and back.
#pragma once

#include <string>

#include "base/result.h"

namespace regard {

/// Writes a bundle with each kernel of the cache whose source this library has; if several compilers made it,
/// the most recently used. JSON: "kernels", how many; "left_out", each with "why" and whether it is
/// "damaged". A bundle without kernels is not written.
Result<std::string> export_cache(const std::string& bundle);

/// Puts each kernel of a bundle into the cache whose source this library has and that loads, unless the cache
/// has one that is as good. The same JSON, with those already there among "kernels".
Result<std::string> import_cache(const std::string& bundle);

}  // namespace regard
