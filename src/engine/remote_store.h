// The remote store: a server that has what other machines compiled, by the cache's keys.
#pragma once

#include <optional>

#include "base/digest.h"
#include "base/result.h"
#include "cache/cache_entry.h"
#include "engine/search.h"

namespace regard {

/// Whether the settings of a store are consistent; accesses neither the store nor a key's file.
Status check_remote(const Settings&);

/// What the store has under the key, checked; nothing where it has none (the search gets the reason) or where
/// no store is set. This process gives up a store that fails, with one warning. An error where the settings
/// are invalid, or where the call is interrupted.
Result<std::optional<CacheEntry>> fetch(Search&, const Digest& key);

/// Puts a newly compiled kernel into the store, if the settings say so. The caller never sees a failure.
void offer(const Settings&, const Digest& key, const CacheEntry&);

}  // namespace regard
