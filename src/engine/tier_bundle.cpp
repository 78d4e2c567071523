#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/text.h"
#include "bundle/about.h"
#include "compile/kernel_entry.h"
#include "compile/manifest.h"
#include "engine/bundles.h"
#include "engine/tiers.h"

namespace regard {
namespace {

/// How many bundles a sentence names; the others are counted.
constexpr std::size_t most_named = 3;

/// For bundles that have no kernel of that name: "not in the bundles a, b, c and 1497 others".
void not_in(Search& search, std::span<const std::string> paths) {
  if (paths.empty()) return;
  const std::size_t shown = std::min(most_named, paths.size()), others = paths.size() - shown;
  std::string text = paths.size() == 1 ? "not in the bundle " : "not in the bundles ";
  for (std::size_t i = 0; i < shown; ++i) {
    if (i > 0) text += i + 1 == paths.size() ? " and " : ", ";
    text += printable(paths[i]);
  }
  if (others > 0) text += fmt::format(" and {} other{}", others, others == 1 ? "" : "s");
  search.missed(std::move(text));
}

/// Null where it has none that fits: the search knows why.
Found from_bundle(Search& search, const Bundle& bundle, Tier tier = Tier::bundle) {
  const std::span<const BundleKernel> named = bundle.named(search.text);
  if (named.empty()) {
    not_in(search, std::span(&bundle.path(), 1));
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
    const bool scarce = error.kind == ErrorKind::no_memory;
    search.missed(why, scarce);
    // Otherwise a bundle whose file was deleted would look as if it were still in use.
    if (!scarce)
      warn_once(fmt::format("a kernel of the bundle {} cannot be used, and is taken from elsewhere: {}",
                            printable(bundle.path()), error.message));
    return nullptr;
  };
  const Result<CacheEntry> entry = bundle.read(*kernel);
  if (!entry) return unusable(entry.error());
  Result<Code> code = search.load(entry->payload, (*rendered)->symbol);
  if (!code) return unusable(code.error());
  return search.found(tier, std::move(*code), Manifest(entry->manifest).resources);
}

bool has_kernels_of(const Bundle& bundle, const std::string& target) {
  const std::string beginning = target + ' ';
  const auto first = std::ranges::lower_bound(bundle.kernels(), beginning, {}, &BundleKernel::name);
  return first != bundle.kernels().end() && first->name.starts_with(beginning);
}

/// The bundle whose `undeclared` decides; null: none forbids anything. A bundle decides only for targets that
/// it has kernels for: a manifest for GPUs says nothing about CPUs.
const Bundle* strictest_of(const Search& search, const Bundles& all) {
  const Bundle* strictest = nullptr;
  const auto ask = [&](const OpenBundle& open) {
    if (open.bundle == nullptr || open.named_by == NamedBy::package ||
        !has_kernels_of(*open.bundle, search.key.target))
      return;
    const std::string& undeclared = open.bundle->about().undeclared;
    if (undeclared == word(Undeclared::error) ||
        (undeclared == word(Undeclared::generic) && strictest == nullptr))
      strictest = open.bundle.get();
  };
  if (all.first) ask(*all.first);
  if (all.embedded) {
    const bool passed_over = !search.settings.built_in && all.embedded->bundle != nullptr &&
                             !all.embedded->bundle->named(search.text).empty();
    if (passed_over) return nullptr;  // its manifest has the kernel
    ask(*all.embedded);
  }
  for (const OpenBundle& open : all.others) ask(open);
  return strictest;
}

/// For `undeclared` in a bundle's manifest: kernels that are in no bundle must not come from anywhere else.
Found undeclared(Search& search, const Bundle& bundle) {
  search.declarable = true;
  search.missed(fmt::format("not looked for elsewhere, as the bundle {} has undeclared = \"{}\"",
                            printable(bundle.path()), bundle.about().undeclared));
  Error error = search.failure();
  // Nothing else can be used instead.
  if (bundle.about().undeclared == word(Undeclared::error)) error.kind = ErrorKind::refused;
  return tl::unexpected(std::move(error));
}

}  // namespace

Found find_in_first_bundle(Search& search) {
  const Result<std::shared_ptr<const Bundles>> all = bundles();
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
  const Result<std::shared_ptr<const Bundles>> all = bundles();
  if (!all) return tl::unexpected(all.error());
  if (!(*all)->embedded) return nullptr;
  const OpenBundle& embedded = *(*all)->embedded;
  if (embedded.bundle != nullptr) return from_bundle(search, *embedded.bundle, Tier::built_in);
  search.missed("not looked up in the library's own bundle: " + embedded.problem, embedded.scarce);
  return nullptr;
}

Found find_in_bundles(Search& search) {
  const Result<std::shared_ptr<const Bundles>> all = bundles();
  if (!all) return tl::unexpected(all.error());
  std::vector<std::string> lacking;
  std::size_t unopened = 0;
  bool scarce = false;
  for (const OpenBundle& open : (*all)->others) {
    if (open.bundle == nullptr) {
      if (++unopened <= most_named)
        search.missed(fmt::format("not looked up in the bundle {}: {}", printable(open.path), open.problem),
                      open.scarce);
      scarce = scarce || open.scarce;
      continue;
    }
    if (open.bundle->named(search.text).empty()) {
      lacking.push_back(open.path);
      continue;
    }
    not_in(search, std::exchange(lacking, {}));
    Found found = from_bundle(search, *open.bundle);
    if (!found || *found != nullptr) return found;
  }
  not_in(search, lacking);
  if (unopened > most_named)
    search.missed(
        fmt::format("not looked up in {} others, which were not opened either", unopened - most_named),
        scarce);
  if (const Bundle* const strictest = strictest_of(search, **all)) return undeclared(search, *strictest);
  return nullptr;
}

}  // namespace regard
