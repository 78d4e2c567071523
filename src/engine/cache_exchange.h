// The cache's kernels as a bundle, for another machine, and back.
#pragma once

#include <string>

#include "base/result.h"

namespace regard {

/// Writes a bundle with each kernel of the cache that this library has the source of; of one that several
/// compilers made, the last used. JSON: "kernels", how many; "left_out", each with "why" and whether it is
/// "damaged". A bundle without kernels is not written.
Result<std::string> export_cache(const std::string& bundle);

/// Puts each kernel of a bundle into the cache that this library has the source of and that loads, unless the
/// cache has one as good. The same JSON, with those that were there among "kernels".
Result<std::string> import_cache(const std::string& bundle);

}  // namespace regard
