#include <fmt/format.h>

#include <algorithm>

#include "base/log.h"
#include "base/text.h"
#include "compile/kernel_entry.h"
#include "compile/manifest.h"
#include "engine/tiers.h"

namespace regard {
namespace {

/// Entries that a compiler made elsewhere, or here before. Manifests only propose compilers; the key, which
/// includes this library's own source, decides.
std::vector<Digest> of_any_compiler(const Search& search, const Search::Source& source) {
  std::vector<Digest> digests;
  for (const CacheEntryInfo& entry : source.cache->list()) {
    const Manifest manifest(entry.manifest);
    if (manifest.kernel == search.text)
      digests.push_back(identity_of(search.key, *source.rendered, manifest.compiler));
  }
  return digests;
}

}  // namespace

void log_unloadable(const Digest& digest, const Error& error) {
  log_line("cache",
           fmt::format("entry {} does not load and is compiled again: {}", digest.hex(), error.message));
}

Found from_entry(Search& search, const CacheEntry& entry, const std::string& not_kept) {
  const Result<const Search::Source*> source = search.source();
  if (!source) return tl::unexpected(source.error());
  search.spent_on("entry");
  Result<Code> code = search.load(entry.payload, (*source)->rendered->symbol);
  if (!code) return tl::unexpected(code.error());
  search.spent_on("load");
  log_line("cache", fmt::format("{} in ms:{}", search.text, search.steps()));
  return search.found(Tier::cache, std::move(*code), Manifest(entry.manifest).resources, not_kept);
}

Found find_cached(Search& search) {
  const Result<const Search::Source*> made = search.source();
  if (!made) return tl::unexpected(made.error());
  const Search::Source& source = **made;
  if (!search.settings.cache) {
    search.missed("not in the cache (switched off)");
    return nullptr;
  }
  std::shared_ptr<const LoadedKernel> found;
  std::string problem;
  bool scarce = false, does_not_load = false;
  const auto loads = [&](const Digest& digest) {
    Cache::Missed missed;
    const std::optional<CacheEntry> entry = source.cache->find(digest, &missed);
    scarce = scarce || missed.scarce;
    if (!missed.why.empty())
      problem = fmt::format("; entry {} there is not used: {}", digest.hex(), missed.why);
    if (!entry) return false;
    const Found cached = from_entry(search, *entry);
    if (cached) found = *cached;
    scarce = scarce || is_scarce(cached);
    if (!cached) {
      does_not_load = true;
      problem = fmt::format("; entry {} there does not load: {}", digest.hex(), cached.error().message);
      if (search.compiles()) log_unloadable(digest, cached.error());
    }
    return cached.has_value();
  };
  if (source.digest && loads(*source.digest)) return found;
  if (search.compiles()) {
    search.cached_does_not_load = does_not_load;
  } else {
    if (std::ranges::any_of(of_any_compiler(search, source), loads)) return found;
    scarce = scarce || is_scarce(source.cache->readable());
  }
  search.missed(fmt::format("not in the cache ({}{})", printable(source.cache->directory()), problem),
                scarce);
  return nullptr;
}

}  // namespace regard
