#include <fmt/format.h>

#include "base/log.h"
#include "compile/kernel_entry.h"
#include "compile/manifest.h"
#include "engine/tiers.h"
#include "plan/variant_text.h"

namespace regard {
namespace {

/// Compiles and loads it: what does not load is not worth keeping.
Result<CacheEntry> compile(const Search& search, const Search::Source& source, std::optional<Code>& code) {
  Result<CacheEntry> entry = compile_entry(search.key, search.target, *source.rendered, **source.toolchain);
  if (!entry) return entry;
  Result<Code> loaded = search.load(entry->payload, source.rendered->symbol);
  if (!loaded) return tl::unexpected(loaded.error());
  code = std::move(*loaded);
  return entry;
}

}  // namespace

Found find_compiled(Search& search) {
  const Result<const Search::Source*> made = search.source();
  if (!made) return tl::unexpected(made.error());
  const Search::Source& source = **made;
  if (is_interrupted(source.toolchain)) return tl::unexpected(source.toolchain.error());
  if (!source.toolchain) {
    search.missed("cannot be compiled: " + source.toolchain.error().message, is_scarce(source.toolchain));
    return nullptr;
  }
  if (!search.compiles()) {
    search.missed(fmt::format(
        "REGARD_JIT=off forbids compiling it; run it once with REGARD_JIT=on, or build a bundle for "
        "{} of a manifest with a table [[variants]] with {}",
        search.key.target, as_variant(search.key.signature)));
    return nullptr;
  }
  if (!search.wants_code()) return search.found(Tier::compile, {});
  std::optional<Code> code;  // of what was compiled here
  const auto compiled = [&](const CacheEntry& entry, const std::string& not_kept) {
    return search.found(Tier::compile, std::move(*code), Manifest(entry.manifest).resources, not_kept);
  };
  if (search.settings.cache && !search.cached_does_not_load) {
    std::string not_kept;
    const Result<CacheEntry> entry =
        source.cache->get(*source.digest, [&] { return compile(search, source, code); }, nullptr, &not_kept);
    if (!entry) return tl::unexpected(entry.error());
    if (code) return compiled(*entry, not_kept);
    Found of_another = from_entry(search, *entry, not_kept);
    if (of_another) return of_another;
    log_unloadable(*source.digest, of_another.error());
  }
  const Result<CacheEntry> entry = compile(search, source, code);
  if (!entry) return tl::unexpected(entry.error());
  const Status kept =
      search.settings.cache ? source.cache->publish(*source.digest, *entry) : refused(cache_is_off);
  return compiled(*entry, kept ? "" : kept.error().message);
}

}  // namespace regard
