// Where kernels come from. To add a source, add a function to the list of tiers in engine/resolve.cpp.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "engine/search.h"

namespace regard {

/// A tier's answer: the kernel; or null, after it has told the search why it has none, and the next tier is
/// asked; an error ends the search.
using Found = Result<std::shared_ptr<const LoadedKernel>>;

/// REGARD_BUNDLE, where it is set.
Found find_in_first_bundle(Search&);
Found find_built_in(Search&);
/// The bundle embedded in the library, if there is one: a part of the previous tier.
Found find_in_embedded_bundle(Search&);
/// The bundles of REGARD_BUNDLE_PATH and those that were added. An error where no bundle has the kernel, and
/// one says that it must then not come from elsewhere.
Found find_in_bundles(Search&);
/// The cache. On a machine that cannot compile, entries of any compiler are accepted.
Found find_cached(Search&);
/// Fetches it from the remote store, or else compiles it: both in one flight, so that of the threads and
/// processes that ask at the same time only one asks the store and compiles, and the others get an entry of
/// the cache.
Found find_made(Search&);

/// The kernel of a cache entry; an error where it does not load.
Found from_entry(Search&, const CacheEntry&, const std::string& not_kept = {});
/// Says in the log that an entry does not load, and that its kernel is compiled again.
void log_unloadable(const Digest&, const Error&);

}  // namespace regard
