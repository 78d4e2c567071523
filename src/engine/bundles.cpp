#include "engine/bundles.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <string_view>
#include <utility>

#include "base/folder.h"
#include "base/log.h"
#include "base/own_file.h"
#include "base/printable.h"
#include "base/settings.h"
#include "base/split.h"
#include "engine/embedded_bundle.h"
#include "engine/trusted_keys.h"

namespace regard {
namespace {

/// Lists that another one took the place of are kept, as threads may be reading them.
constinit std::atomic<const Bundles*> in_use{nullptr};

OpenBundle opened(const std::string& path, const Result<std::shared_ptr<const Bundle>>& bundle) {
  if (bundle) return {path, *bundle, {}, false};
  return {path, nullptr, bundle.error().message, is_scarce(bundle)};
}

OpenBundle open(const std::string& path, const std::vector<PublicKey>& trusted) {
  return opened(path, Bundle::open(path, trusted));
}

/// Whoever loads the library trusts what is in it, so it needs no signature.
OpenBundle open_embedded() {
  const std::string path = own_file();
  return opened(path, Bundle::in_memory(path, embedded_bundle()));
}

bool is_folder(const std::string& path) {
  struct stat status;
  return stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

/// What REGARD_BUNDLE_PATH stands for: files as they are, of folders the bundles in them by name.
std::vector<std::string> files_of(std::string_view path_list) {
  std::vector<std::string> files;
  for (const std::string_view part : split(path_list, ":")) {
    if (part.empty()) continue;
    const std::string path(part);
    if (!is_folder(path)) {
      files.push_back(path);
      continue;
    }
    std::vector<std::string> names = names_in(path);
    std::ranges::sort(names);
    for (const std::string& name : names)
      if (name.ends_with(".bundle")) files.push_back(path + "/" + name);
  }
  return files;
}

/// Kernels come from elsewhere then, and nobody would know why they are not the ones that were built.
void warn_of_unopened(const OpenBundle& bundle) {
  if (bundle.bundle == nullptr)
    warn_once(fmt::format("the bundle {} is not used: {}", printable(bundle.path), bundle.problem));
}

Result<std::unique_ptr<Bundles>> from_settings() {
  const Result<Settings>& current = settings();
  if (!current) return tl::unexpected(current.error());
  const Result<std::vector<PublicKey>> trusted = trusted_keys(*current);
  if (!trusted) return tl::unexpected(trusted.error());
  auto list = std::make_unique<Bundles>();
  if (!current->bundle.empty()) list->first = open(current->bundle, *trusted);
  if (current->built_in && !embedded_bundle().empty())
    warn_of_unopened(list->embedded.emplace(open_embedded()));
  for (const std::string& file : files_of(current->bundle_path)) {
    warn_of_unopened(list->others.emplace_back(open(file, *trusted)));
  }
  return list;
}

/// Replaces `before` unless another thread did.
bool replace(const Bundles* before, std::unique_ptr<Bundles> list) {
  if (!in_use.compare_exchange_strong(before, list.get(), std::memory_order_acq_rel)) return false;
  static_cast<void>(list.release());
  return true;
}

bool lacks_some(const Bundles& list) {
  return (list.first && list.first->scarce) || (list.embedded && list.embedded->scarce) ||
         std::ranges::any_of(list.others, &OpenBundle::scarce);
}

/// The same list with what memory or files were lacking for.
Status complete(const Bundles& before) {
  const Result<std::vector<PublicKey>> trusted = trusted_keys(*settings());
  if (!trusted) return tl::unexpected(trusted.error());
  auto list = std::make_unique<Bundles>(before);
  const auto again = [&](OpenBundle& bundle) {
    if (bundle.scarce) bundle = open(bundle.path, *trusted);
  };
  if (list->first) again(*list->first);
  if (list->embedded && list->embedded->scarce) list->embedded = open_embedded();
  std::ranges::for_each(list->others, again);
  if (!lacks_some(*list)) replace(&before, std::move(list));
  return {};
}

}  // namespace

Result<const Bundles*> bundles() {
  const Bundles* list = in_use.load(std::memory_order_acquire);
  if (list == nullptr) {
    Result<std::unique_ptr<Bundles>> made = from_settings();
    if (!made) return tl::unexpected(made.error());
    replace(nullptr, std::move(*made));
  } else if (lacks_some(*list)) {
    if (Status status = complete(*list); !status) return tl::unexpected(status.error());
  }
  return in_use.load(std::memory_order_acquire);
}

int added_bundles() {
  const Bundles* list = in_use.load(std::memory_order_acquire);
  return list == nullptr ? 0 : list->changes;
}

Result<std::shared_ptr<const Bundle>> open_trusted(const std::string& path) {
  const Result<Settings>& current = settings();
  if (!current) return tl::unexpected(current.error());
  const Result<std::vector<PublicKey>> trusted = trusted_keys(*current);
  if (!trusted) return tl::unexpected(trusted.error());
  Result<std::shared_ptr<const Bundle>> bundle = Bundle::open(path, *trusted);
  if (bundle) return bundle;
  return fail(bundle.error().kind,
              fmt::format("the bundle {} cannot be used: {}", printable(path), bundle.error().message));
}

Status add_bundle(const std::string& path) {
  const Result<std::shared_ptr<const Bundle>> bundle = open_trusted(path);
  if (!bundle) return tl::unexpected(bundle.error());
  for (;;) {
    const Result<const Bundles*> before = bundles();
    if (!before) return tl::unexpected(before.error());
    auto list = std::make_unique<Bundles>(**before);
    std::erase_if(list->others, [&](const OpenBundle& other) { return other.path == path; });
    list->others.push_back({path, *bundle, {}, false});
    ++list->changes;
    if (replace(*before, std::move(list))) return {};
  }
}

}  // namespace regard
