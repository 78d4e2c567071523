// Maintenance over all entries: keeping them below the size limit, removing what killed processes left.
#pragma once

#include <optional>
#include <string>

#include "cache/cache.h"
#include "cache/directory.h"

namespace regard::cache {

std::string entry_name(const Digest& key);
/// The key of the entry with this name; nothing for other names.
std::optional<Digest> key_of(std::string_view name);

/// Removes leftovers, and least recently used entries, but never `keep`, until the rest fits.
void evict(const Directory&, std::int64_t bound_bytes, const std::string& keep);

}  // namespace regard::cache
