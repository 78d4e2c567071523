#include "compile/kernel_entry.h"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "base/json.h"
#include "base/log.h"
#include "compile/manifest.h"
#include "compile/resources.h"

namespace regard {
namespace {

/// Changes whenever the meaning of an entry does.
constexpr int entry_schema = 1;

std::string manifest_of(const KernelKey& key, const Rendered& rendered, std::string_view compiler,
                        const std::optional<Resources>& resources, const std::optional<double>& seconds) {
  JsonWriter json;
  json.object([&] {
    if (seconds) json.member("compile_seconds", *seconds);
    json.member("compiler", compiler);
    json.member("kernel", print(key));
    json.member("options", rendered.options);
    if (resources) json.member("resources", [&] { json.raw(resources_json(*resources)); });
    json.member("symbol", rendered.symbol);
    json.member("target", key.target);
  });
  return json.take();
}

}  // namespace

Digest source_of(const KernelKey& key, const Rendered& rendered) {
  return identity_of(key, rendered, "");
}

Digest identity_of(const KernelKey& key, const Rendered& rendered, std::string_view compiler) {
  return sha256(fmt::format("{}\n{}\n{}\n{}\n{}", entry_schema, key.target, compiler,
                            fmt::join(rendered.options, " "), rendered.source));
}

std::string lasting_manifest(const KernelKey& key, const Rendered& rendered, std::string_view compiler,
                             const std::optional<Resources>& resources) {
  return manifest_of(key, rendered, compiler, resources, std::nullopt);
}

Result<CacheEntry> compile_entry(const KernelKey& key, const Target& target, const Rendered& rendered,
                                 Toolchain& toolchain) {
  Result<Compiled> compiled = toolchain.compile({rendered.symbol, rendered.source, rendered.options});
  if (!compiled) return tl::unexpected(compiled.error());
  if (log_enabled("compile"))
    log_line("compile", fmt::format("{} in {:.2f} s", print(key), compiled->seconds));
  if (compiled->resources) {
    compiled->resources->waves = waves_per_simd(compiled->resources->registers, target);
    warn_of_missing_instructions(*compiled->resources, key);
    if (Status status = fits(*compiled->resources, key, target); !status)
      return tl::unexpected(status.error());
  }
  CacheEntry entry{manifest_of(key, rendered, toolchain.identity(), compiled->resources, compiled->seconds),
                   std::move(compiled->binary)};
  entry.origin.compiled = true;
  if (!compiled->doubt.empty()) {
    entry.uncacheable =
        fmt::format("a kernel is not kept: the compiler {} {}", toolchain.name(), compiled->doubt);
  }
  return entry;
}

}  // namespace regard
