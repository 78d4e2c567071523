#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "base/printable.h"
#include "compile/kernel_entry.h"
#include "compile/manifest.h"
#include "engine/bundles.h"
#include "engine/tiers.h"
#include "plan/variant_text.h"

namespace regard {
namespace {

/// Null where it has none that fits: the search knows why.
Found from_bundle(Search& search, const Bundle& bundle, Tier tier = Tier::bundle) {
  const std::span<const BundleKernel> named = bundle.named(search.text);
  if (named.empty()) {
    search.missed(fmt::format("not in the bundle {}", printable(bundle.path())));
    return nullptr;
  }
  const Result<const Rendered*> rendered = search.rendered();
  if (!rendered) return tl::unexpected(rendered.error());
  const auto kernel = std::ranges::find(named, source_of(search.key, **rendered), &BundleKernel::source);
  if (kernel == named.end()) {
    search.missed(fmt::format("in the bundle {} as Regard {} had it, and not as {} has it",
                              printable(bundle.path()), bundle.about().version, REGARD_VERSION));
    return nullptr;
  }
  const auto unusable = [&](const Error& error) {
    const std::string why =
        fmt::format("in the bundle {}, but unusable there: {}", printable(bundle.path()), error.message);
    search.missed(why, error.kind == ErrorKind::no_memory);
    return nullptr;
  };
  const Result<CacheEntry> entry = bundle.read(*kernel);
  if (!entry) return unusable(entry.error());
  Result<Code> code = search.load(entry->payload, (*rendered)->symbol);
  if (!code) return unusable(code.error());
  return search.found(tier, std::move(*code), Manifest(entry->manifest).resources);
}

/// Of `undeclared` in a bundle's manifest: kernels that are in no bundle are not had from anywhere else.
Found undeclared(Search& search, const Bundle& bundle) {
  search.missed(fmt::format(
      "not to be had from elsewhere, as the bundle {} has undeclared = \"{}\"; a table [[variants]] "
      "in its manifest with {} would add it",
      printable(bundle.path()), bundle.about().undeclared, as_variant(search.key.signature)));
  Error error = search.failure();
  // Nothing else may answer in its place.
  if (bundle.about().undeclared == "error") error.kind = ErrorKind::refused;
  return tl::unexpected(std::move(error));
}

}  // namespace

Found find_in_first_bundle(Search& search) {
  const Result<const Bundles*> all = bundles();
  if (!all) return tl::unexpected(all.error());
  if (!(*all)->first) return nullptr;
  const OpenBundle& first = *(*all)->first;
  if (first.bundle == nullptr) {
    return fail(first.scarce ? ErrorKind::no_memory : ErrorKind::invalid,
                fmt::format("REGARD_BUNDLE={} is not to be used: {}", printable(first.path), first.problem));
  }
  return from_bundle(search, *first.bundle);
}

Found find_in_embedded_bundle(Search& search) {
  const Result<const Bundles*> all = bundles();
  if (!all) return tl::unexpected(all.error());
  if (!(*all)->embedded) return nullptr;
  const OpenBundle& embedded = *(*all)->embedded;
  if (embedded.bundle != nullptr) return from_bundle(search, *embedded.bundle, Tier::built_in);
  search.missed("not looked up in the library's own bundle: " + embedded.problem, embedded.scarce);
  return nullptr;
}

Found find_in_bundles(Search& search) {
  const Result<const Bundles*> all = bundles();
  if (!all) return tl::unexpected(all.error());
  const Bundle* strictest = nullptr;
  const auto declares = [&](const OpenBundle& open) {
    if (open.bundle == nullptr) return;
    const std::string& undeclared = open.bundle->about().undeclared;
    if (undeclared == "error" || (undeclared == "portable" && strictest == nullptr))
      strictest = open.bundle.get();
  };
  if ((*all)->first) declares(*(*all)->first);
  if ((*all)->embedded) declares(*(*all)->embedded);
  for (const OpenBundle& open : (*all)->others) {
    declares(open);
    if (open.bundle == nullptr) {
      search.missed(fmt::format("not looked up in the bundle {}: {}", printable(open.path), open.problem),
                    open.scarce);
      continue;
    }
    Found found = from_bundle(search, *open.bundle);
    if (!found || *found != nullptr) return found;
  }
  if (strictest != nullptr) return undeclared(search, *strictest);
  return nullptr;
}

}  // namespace regard
