#include "bundle/merge.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/text.h"
#include "bundle/compressed.h"
#include "bundle/index.h"
#include "bundle/writer.h"

namespace regard {
namespace {

/// A kernel and the part that it is in.
struct Part {
  const Bundle* bundle;
  const BundleKernel* kernel;
};

tl::unexpected<Error> of_part(const Bundle& part, const Error& error) {
  return fail(error.kind, printable(part.path()) + ": " + error.message);
}

/// Two versions of zstd can pack the same entry differently.
Result<bool> are_the_same(const Part& a, const Part& b) {
  if (a.kernel->identity != b.kernel->identity) return false;
  if (a.kernel->checksum == b.kernel->checksum) return true;
  const Result<CacheEntry> entry_a = a.bundle->read(*a.kernel);
  if (!entry_a) return of_part(*a.bundle, entry_a.error());
  const Result<CacheEntry> entry_b = b.bundle->read(*b.kernel);
  if (!entry_b) return of_part(*b.bundle, entry_b.error());
  return entry_a->manifest == entry_b->manifest && entry_a->payload == entry_b->payload;
}

/// In order, each once.
Result<std::vector<Part>> merged_kernels(std::span<const std::shared_ptr<const Bundle>> bundles) {
  std::vector<Part> all, chosen;
  for (const auto& part : bundles)
    for (const BundleKernel& kernel : part->kernels()) all.push_back({part.get(), &kernel});
  std::ranges::stable_sort(
      all, [](const Part& a, const Part& b) { return bundle::stands_before(*a.kernel, *b.kernel); });
  for (const Part& part : all) {
    if (chosen.empty() || bundle::stands_before(*chosen.back().kernel, *part.kernel)) {
      chosen.push_back(part);
      continue;
    }
    const Result<bool> same = are_the_same(chosen.back(), part);
    if (!same) return tl::unexpected(same.error());
    if (!*same)
      return invalid(fmt::format(
          "{} and {} have kernel {} of the same source with different bytes; build it once, or leave one out",
          in_quotes(chosen.back().bundle->path()), in_quotes(part.bundle->path()),
          in_quotes(part.kernel->name)));
  }
  return chosen;
}

Result<BundleAbout> about_of(std::span<const std::shared_ptr<const Bundle>> bundles,
                             const std::string& version) {
  const Bundle& first = *bundles.front();
  BundleAbout about = first.about();
  about.version = version;
  about.tuning.clear();
  for (const auto& part : bundles) {
    about.tuning += part->about().tuning;
    if (part->about().title != first.about().title) about.title.clear();
    if (part->about().undeclared != about.undeclared)
      return invalid(fmt::format("{} was built with undeclared = {} and {} with {}; build them the same way",
                                 in_quotes(first.path()), in_quotes(about.undeclared),
                                 in_quotes(part->path()), in_quotes(part->about().undeclared)));
  }
  return about;
}

}  // namespace

Status merge_bundles(const std::string& path, std::span<const std::shared_ptr<const Bundle>> parts,
                     const std::string& version) {
  if (parts.empty()) return invalid("there is no bundle to merge");
  const Result<BundleAbout> about = about_of(parts, version);
  if (!about) return tl::unexpected(about.error());
  const Result<std::vector<Part>> chosen = merged_kernels(parts);
  if (!chosen) return tl::unexpected(chosen.error());
  std::vector<BundleKernel> kernels;
  for (const Part& part : *chosen) kernels.push_back(*part.kernel);
  return bundle::write_in_order(
      path, *about, std::move(kernels), [&](std::size_t i) -> Result<bundle::Compressed> {
        const Part& part = (*chosen)[i];
        Result<std::vector<std::byte>> compressed = part.bundle->read_compressed(*part.kernel);
        if (!compressed) return of_part(*part.bundle, compressed.error());
        return bundle::Compressed{std::move(*compressed), part.kernel->bytes};
      });
}

}  // namespace regard
