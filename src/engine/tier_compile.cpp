#include <fmt/format.h>

#include "base/json_writer.h"
#include "base/log.h"
#include "engine/manifest.h"
#include "engine/tiers.h"

namespace regard {
namespace {

std::string manifest_of(const Search& search, const Search::Source& source, const Compiled& compiled) {
  JsonWriter json;
  json.object([&] {
    json.member("compile_seconds", compiled.seconds);
    json.member("compiler", (*source.toolchain)->identity());
    json.member("kernel", search.text);
    json.member("options", source.rendered.options);
    if (compiled.resources) json.member("resources", [&] { json.raw(resources_json(*compiled.resources)); });
    json.member("symbol", source.rendered.symbol);
    json.member("target", search.target.name);
  });
  return json.take();
}

/// Compiles and loads it: what does not load is not worth keeping.
Result<CacheEntry> compile(const Search& search, const Search::Source& source, std::optional<Code>& code) {
  const Rendered& rendered = source.rendered;
  Toolchain& toolchain = **source.toolchain;
  Result<Compiled> compiled = toolchain.compile({rendered.symbol, rendered.source, rendered.options});
  if (!compiled) return tl::unexpected(compiled.error());
  log_line("compile", fmt::format("{} in {:.2f} s", search.text, compiled->seconds));
  if (compiled->resources) {
    warn_of_missing_instructions(*compiled->resources, search.key);
    if (Status status = fits(*compiled->resources, search.key, search.target); !status)
      return tl::unexpected(status.error());
  }
  Result<Code> loaded = load(search.target, compiled->binary, rendered.symbol);
  if (!loaded) return tl::unexpected(loaded.error());
  code = std::move(*loaded);
  CacheEntry entry{manifest_of(search, source, *compiled), compiled->binary};
  if (!compiled->doubt.empty()) {
    entry.unfit = fmt::format("a kernel is not kept: the compiler {} {}", toolchain.name(), compiled->doubt);
  }
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
    search.missed(
        fmt::format("REGARD_JIT=off forbids compiling it; run it once with REGARD_JIT=on, or build "
                    "the library with '{}' among the variants of profiles/default.toml",
                    print(search.key.signature)));
    return nullptr;
  }
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
