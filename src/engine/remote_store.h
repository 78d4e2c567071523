// The remote store: a server that has what other machines compiled, by the keys of the cache.
#pragma once

#include <optional>

#include "base/digest.h"
#include "base/result.h"
#include "cache/cache_entry.h"
#include "engine/search.h"

namespace regard {

/// Whether the settings of a store fit together; nothing is asked of the store, nor of the file of a key.
Status check_remote(const Settings&);

/// What the store has under the key, checked; nothing, after it has told the search why, where it has none,
/// or where no store is set. A store that fails is given up by this process, with one warning. An error where
/// the settings are bad, or where the call is interrupted.
Result<std::optional<CacheEntry>> fetch(Search&, const Digest& key);

/// Puts what was compiled here into the store, where the settings want that. Its failure is never the
/// caller's.
void offer(const Settings&, const Digest& key, const CacheEntry&);

}  // namespace regard
