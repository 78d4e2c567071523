// What is done with all entries: keep them under the bound, clear up after those who were killed.
#pragma once

#include <optional>
#include <string>

#include "cache/cache.h"
#include "cache/directory.h"

namespace regard::cache {

std::string entry_name(const Digest& key);
/// The key of an entry's name; nothing for other names.
std::optional<Digest> key_of(std::string_view name);

/// Removes least recently used entries until the rest fits, but never `keep`; and litter.
void evict(const Directory&, std::int64_t bound_bytes, const std::string& keep);

}  // namespace regard::cache
