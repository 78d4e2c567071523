#include <fmt/format.h>

#include "base/log.h"
#include "compile/kernel_entry.h"
#include "compile/manifest.h"
#include "engine/remote_store.h"
#include "engine/tiers.h"

namespace regard {
namespace {

std::string jit_is_off(Search& search) {
  search.declarable = true;
  return "REGARD_JIT=off forbids compiling it; run it once with REGARD_JIT=on, or build it ahead of time";
}

/// Makes an entry, and loads it: an entry that does not load is not worth keeping.
class Maker {
 public:
  Maker(Search& search, const Search::Source& source) : search_(search), source_(source) {}

  /// From the remote store; nothing where it has none that loads.
  Result<std::optional<CacheEntry>> fetch() {
    Result<std::optional<CacheEntry>> entry = regard::fetch(search_, *source_.digest);
    if (!entry || !*entry) return entry;
    Result<Code> loaded = search_.load((*entry)->payload, source_.rendered->symbol);
    if (!loaded) {
      search_.missed("in the remote store, but does not load: " + loaded.error().message, is_scarce(loaded));
      return std::nullopt;
    }
    return made(Tier::remote, std::move(*loaded)), std::move(entry);
  }

  /// Fetched or compiled.
  Result<CacheEntry> make() {
    Result<std::optional<CacheEntry>> fetched = fetch();
    if (!fetched) return tl::unexpected(fetched.error());
    if (*fetched) return std::move(**fetched);
    if (!search_.compiles()) return fail(ErrorKind::no_kernel, jit_is_off(search_));
    Result<CacheEntry> entry =
        compile_entry(search_.key, search_.target, *source_.rendered, **source_.toolchain);
    if (!entry) return entry;
    Result<Code> loaded = search_.load(entry->payload, source_.rendered->symbol);
    if (!loaded) return tl::unexpected(loaded.error());
    made(Tier::compile, std::move(*loaded));
    return entry;
  }

  /// Whether it was made here; else another thread or process made the entry.
  bool has_made() const { return code_.has_value(); }

  /// What was made here.
  Found found(const CacheEntry& entry, const std::string& not_kept) {
    if (tier_ == Tier::compile && search_.wants_code()) offer(search_.settings, *source_.digest, entry);
    return search_.found(tier_, std::move(*code_), Manifest(entry.manifest).resources, not_kept);
  }

 private:
  void made(Tier tier, Code code) {
    tier_ = tier;
    code_ = std::move(code);
  }

  Search& search_;
  const Search::Source& source_;
  std::optional<Code> code_;
  Tier tier_ = Tier::compile;
};

/// Answers a search for the tier only: nothing is compiled, and nothing is kept.
Found find_location(Search& search, Maker& maker) {
  const Result<std::optional<CacheEntry>> fetched = maker.fetch();
  if (!fetched) return tl::unexpected(fetched.error());
  if (*fetched) return maker.found(**fetched, "");
  if (search.compiles()) return search.found(Tier::compile, {});
  search.missed(jit_is_off(search));
  return nullptr;
}

}  // namespace

Found find_made(Search& search) {
  const Result<const Search::Source*> made = search.source();
  if (!made) return tl::unexpected(made.error());
  const Search::Source& source = **made;
  if (is_interrupted(source.toolchain)) return tl::unexpected(source.toolchain.error());
  if (!source.toolchain) {
    if (!search.settings.remote.empty())
      search.missed("not asked for in the remote store, whose keys depend on the compiler, as none is here");
    search.missed("cannot be compiled: " + source.toolchain.error().message, is_scarce(source.toolchain));
    return nullptr;
  }
  if (!search.compiles() && search.settings.remote.empty()) {
    search.missed(jit_is_off(search));
    return nullptr;
  }
  Maker maker(search, source);
  if (!search.wants_code()) return find_location(search, maker);
  const auto failed = [&](const Error& error) -> Found {
    if (search.compiles() || error.kind != ErrorKind::no_kernel) return tl::unexpected(error);
    search.missed(error.message);
    return nullptr;
  };
  if (search.settings.cache && !search.cached_does_not_load) {
    std::string not_kept;
    const Result<CacheEntry> entry =
        source.cache->get(*source.digest, [&] { return maker.make(); }, nullptr, &not_kept);
    if (!entry) return failed(entry.error());
    if (maker.has_made()) return maker.found(*entry, not_kept);
    Found of_another = from_entry(search, *entry, not_kept);
    if (of_another) return of_another;
    log_unloadable(*source.digest, of_another.error());
  }
  const Result<CacheEntry> entry = maker.make();
  if (!entry) return failed(entry.error());
  const Status kept =
      search.settings.cache ? source.cache->publish(*source.digest, *entry) : refused(cache_is_off);
  return maker.found(*entry, kept ? "" : kept.error().message);
}

}  // namespace regard
