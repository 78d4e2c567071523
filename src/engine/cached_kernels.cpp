#include "engine/cached_kernels.h"

#include <algorithm>

#include "base/settings.h"
#include "compile/manifest.h"
#include "engine/resolve.h"

namespace regard {

std::map<std::string, std::optional<Resources>> cached_kernels() {
  std::map<std::string, std::optional<Resources>> found;
  const Result<Settings>& current = settings();
  if (!current || !current->cache) return found;
  const Result<Cache*> cache = process_cache();
  if (!cache) return found;
  std::vector<CacheEntryInfo> entries = (*cache)->list();
  std::ranges::sort(entries, {}, &CacheEntryInfo::used_unix_seconds);
  for (const CacheEntryInfo& entry : entries) {
    if (!entry.trusted) continue;
    const Manifest manifest(entry.manifest);
    if (!manifest.kernel.empty()) found[manifest.kernel] = manifest.resources;
  }
  return found;
}

}  // namespace regard
