#include "aot/compile_all.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "aot/code_object.h"
#include "base/files.h"
#include "base/interruption.h"
#include "base/machine.h"
#include "base/parallel_for.h"
#include "base/text.h"
#include "compile/kernel_entry.h"
#include "compile/manifest.h"

namespace regard::aot {
namespace {

/// The compilers of the targets that have kernels to compile.
Result<std::map<const Target*, Toolchain*>> toolchains_for(const Selection& selection) {
  std::map<const Target*, Toolchain*> found;
  for (const Selection::OfTarget& of_target : selection.targets) {
    const bool compiles = std::ranges::any_of(
        of_target.kernels, [](const Selection::Kernel& kernel) { return kernel.binary == nullptr; });
    if (!compiles) continue;
    const Result<Toolchain*> toolchain = toolchain_for(*of_target.target);
    if (!toolchain) {
      return fail(toolchain.error().kind, fmt::format("nothing can be compiled for {}: {}",
                                                      of_target.target->name, toolchain.error().message));
    }
    found[of_target.target] = *toolchain;
  }
  return found;
}

Status read_binary(Built& built, const Target& target, const Rendered& rendered) {
  const Manifest::Binary& binary = *built.kernel->binary;
  const Result<std::string> bytes = read_file(binary.path, largest_payload_bytes, Links::followed);
  if (!bytes) return fail(bytes.error().kind, in_quotes(binary.path) + ": " + bytes.error().message);
  const auto view = std::as_bytes(std::span(*bytes));
  if (const Status status = check_code_object(view, target, rendered.symbol); !status)
    return invalid(fmt::format("{} cannot be used: {}", in_quotes(binary.path), status.error().message));
  built.entry.payload.assign(view.begin(), view.end());
  const std::string maker = "binary " + sha256(view).hex();
  built.identity = identity_of(built.kernel->key, rendered, maker);
  built.entry.manifest = lasting_manifest(built.kernel->key, rendered, maker, {});
  return {};
}

Status compile(Built& built, const Target& target, const Rendered& rendered, Toolchain& toolchain,
               Cache& store) {
  const KernelKey& key = built.kernel->key;
  built.identity = identity_of(key, rendered, toolchain.identity());
  Result<CacheEntry> entry =
      store.get(built.identity, [&] { return compile_entry(key, target, rendered, toolchain); }, &built.kept);
  if (!entry) return tl::unexpected(entry.error());
  const regard::Manifest said(entry->manifest);
  built.seconds = said.compile_seconds;
  built.resources = said.resources;
  built.entry = std::move(*entry);
  built.entry.manifest = lasting_manifest(key, rendered, toolchain.identity(), said.resources);
  return {};
}

/// An error means a lack of memory, files or disk, which says nothing about the kernel.
Result<Built> build_one(const Selection::Kernel& kernel, const Target& target, Toolchain* toolchain,
                        Cache& store) {
  Built built{.kernel = &kernel};
  const Result<Rendered> rendered = render(kernel.key);
  if (rendered) built.source = source_of(kernel.key, *rendered);
  const Status status = !rendered                  ? Status(tl::unexpected(rendered.error()))
                        : kernel.binary != nullptr ? read_binary(built, target, *rendered)
                                                   : compile(built, target, *rendered, *toolchain, store);
  if (is_scarce(status)) {
    return fail(status.error().kind,
                fmt::format("the kernel '{}' cannot be built: {}", kernel.text, status.error().message));
  }
  built.bytes = built.entry.payload.size();
  if (!status) built.failure = status.error().message;
  return built;
}

}  // namespace

Result<std::vector<Built>> compile_all(const Selection& selection, Cache& store, int jobs,
                                       const OnBuilt& on_built) {
  const auto toolchains = toolchains_for(selection);
  if (!toolchains) return tl::unexpected(toolchains.error());
  std::vector<std::pair<const Selection::Kernel*, const Target*>> kernels;
  for (const Selection::OfTarget& of_target : selection.targets)
    for (const Selection::Kernel& kernel : of_target.kernels) kernels.emplace_back(&kernel, of_target.target);

  std::vector<Built> all(kernels.size());
  std::mutex mutex;
  std::size_t done = 0;
  std::optional<Error> stopped;
  const auto lanes = static_cast<std::size_t>(jobs > 0 ? jobs : usable_cores());
  parallel_for(kernels.size(), lanes, [&](std::size_t i) {
    const bool is_interrupted = interrupted();
    if (const std::lock_guard lock(mutex); stopped || is_interrupted) {
      if (!stopped) stopped = interruption().value();
      return;
    }
    const auto& [kernel, target] = kernels[i];
    const auto toolchain = toolchains->find(target);
    Result<Built> built =
        build_one(*kernel, *target, toolchain == toolchains->end() ? nullptr : toolchain->second, store);
    const std::lock_guard lock(mutex);
    if (!built) {
      if (!stopped) stopped = built.error();
      return;
    }
    all[i] = std::move(*built);
    on_built(all[i], ++done);
  });
  if (interrupted() || (stopped && stopped->kind == ErrorKind::interrupted)) {
    return fail(ErrorKind::interrupted,
                fmt::format("interrupted with {} of {} kernels built; the next build goes on from there",
                            done, kernels.size()));
  }
  if (stopped) return tl::unexpected(*stopped);
  return all;
}

}  // namespace regard::aot
