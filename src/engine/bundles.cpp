#include "engine/bundles.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <mutex>
#include <span>
#include <string_view>
#include <utility>

#include "base/files.h"
#include "base/log.h"
#include "base/process.h"
#include "base/process_lifetime.h"
#include "base/settings.h"
#include "base/text.h"
#include "bundle/access.h"
#include "bundle/trusted_keys.h"
#include "engine/choice.h"

namespace regard {

// The bundle embedded in a library that `regard build` has made (src/aot/library.cpp). Weak: a library
// without a bundle does not define them, and both are null. Hidden: never another library's.
extern "C" {
[[gnu::weak, gnu::visibility("hidden")]] extern const std::byte regard_embedded_bundle[];
[[gnu::weak, gnu::visibility("hidden")]] extern const std::byte regard_embedded_bundle_end[];
}

namespace {

/// Empty in every other library.
std::span<const std::byte> embedded_bundle() {
  return {regard_embedded_bundle, regard_embedded_bundle_end};
}

using List = std::shared_ptr<const Bundles>;

/// The list of this process. It is replaced in one step, so that a fork at any moment leaves the child a
/// complete list; the lock is for concurrent readers, and the child has its own.
constinit std::atomic<const List*> in_use{nullptr};
ForkLocal<std::mutex>& in_use_lock = *new ForkLocal<std::mutex>;

List current_list() {
  const std::lock_guard lock(in_use_lock.get());
  const List* const list = in_use.load(std::memory_order_acquire);
  return list == nullptr ? nullptr : *list;
}

/// Replaces `before` unless another thread did.
bool replace(const List& before, std::unique_ptr<const Bundles> list) {
  auto fresh = std::make_unique<const List>(std::move(list));
  std::unique_ptr<const List> earlier;
  const std::lock_guard lock(in_use_lock.get());
  const List* const now = in_use.load(std::memory_order_acquire);
  if ((now == nullptr ? nullptr : *now) != before) return false;
  in_use.store(fresh.release(), std::memory_order_release);
  earlier.reset(now);
  return true;
}

/// A bundle that any user can write to is refused, and one that another user can write to gives a warning, as
/// whoever named it may not know that. With trusted keys the signature says who made it, wherever it is.
Result<std::shared_ptr<const Bundle>> open_to_use(const std::string& path,
                                                  const std::vector<PublicKey>& trusted) {
  Result<std::shared_ptr<const Bundle>> bundle = Bundle::open(path, trusted);
  if (!bundle || !trusted.empty()) return bundle;
  if (const std::string why = bundle::world_writable((*bundle)->location()); !why.empty()) {
    return refused(why +
                   ", and the kernels in it are executed; remove that permission (chmod o-w), or sign the "
                   "bundle and set REGARD_TRUSTED_KEYS");
  }
  if (const std::string why = bundle::writable_by_another((*bundle)->location()); !why.empty()) {
    static std::atomic<bool> warned{false};  // one warning is enough: there may be thousands of bundles
    if (!warned.exchange(true))
      warn_once(
          fmt::format("the kernels of the bundle {} are executed by user {}, although {}; sign bundles that "
                      "others can write, and set REGARD_TRUSTED_KEYS",
                      printable(path), geteuid(), why));
  }
  return bundle;
}

OpenBundle opened(const std::string& path, const Result<std::shared_ptr<const Bundle>>& bundle) {
  if (bundle) return {path, *bundle, {}, false};
  return {path, nullptr, bundle.error().message, is_scarce(bundle)};
}

OpenBundle open(const std::string& path, const std::vector<PublicKey>& trusted) {
  return opened(path, open_to_use(path, trusted));
}

/// Whoever loads the library trusts what is in it, so this bundle needs no signature.
OpenBundle open_embedded() {
  const std::string path = library_path();
  return opened(path, Bundle::in_memory(path, embedded_bundle()));
}

bool is_folder(const std::string& path) {
  struct stat status;
  return stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

/// Otherwise kernels would silently come from elsewhere instead of from the ones that were built.
void warn_of_unopened(const OpenBundle& bundle) {
  if (bundle.bundle == nullptr)
    warn_once(fmt::format("the bundle {} is not used: {}", printable(bundle.path), bundle.problem));
}

/// The bundles of one element of REGARD_BUNDLE_PATH: a file itself, or the bundles in a folder, sorted by
/// name. An unreadable folder stays in the list, with what is wrong with it.
std::vector<OpenBundle> opened_of(const std::string& path, const std::vector<PublicKey>& trusted) {
  if (!is_folder(path)) return {open(path, trusted)};
  Result<std::vector<std::string>> names = read_names(path);
  if (!names) return {{path, nullptr, names.error().message, is_scarce(names)}};
  std::ranges::sort(*names);
  std::vector<OpenBundle> bundles;
  for (const std::string& name : *names)
    if (name.ends_with(".bundle")) bundles.push_back(open(path + "/" + name, trusted));
  return bundles;
}

bool same(const OpenBundle& one, const OpenBundle& other) {
  if (one.bundle == nullptr || other.bundle == nullptr)
    return one.bundle == other.bundle && one.path == other.path;
  return one.bundle->same_as(*other.bundle);
}

/// Whether the list already has it, so that it is not asked twice.
bool has(const Bundles& list, const OpenBundle& requested) {
  const auto is_it = [&](const OpenBundle& other) { return same(requested, other); };
  return (list.first && is_it(*list.first)) || std::ranges::any_of(list.others, is_it);
}

/// Appends the bundles of one element of REGARD_BUNDLE_PATH.
void append(Bundles& list, const std::string& path, const std::vector<PublicKey>& trusted) {
  for (OpenBundle& bundle : opened_of(path, trusted)) {
    warn_of_unopened(bundle);
    if (!has(list, bundle)) list.others.push_back(std::move(bundle));
  }
}

Result<std::unique_ptr<Bundles>> from_settings() {
  const Result<Settings>& current = settings();
  if (!current) return tl::unexpected(current.error());
  const Result<std::vector<PublicKey>> trusted = trusted_keys(*current);
  if (!trusted) return tl::unexpected(trusted.error());
  auto list = std::make_unique<Bundles>();
  if (!current->bundle.empty()) list->first = open(current->bundle, *trusted);
  if (!embedded_bundle().empty()) warn_of_unopened(list->embedded.emplace(open_embedded()));
  for (const std::string_view part : current->bundle_path.items()) append(*list, std::string(part), *trusted);
  return list;
}

/// How many could not be opened for lack of resources.
std::ptrdiff_t lacking(const Bundles& list) {
  return (list.first && list.first->scarce) + (list.embedded && list.embedded->scarce) +
         std::ranges::count_if(list.others, &OpenBundle::scarce);
}

/// Opens those that lacked memory or files, and replaces the list if some of them can be opened now.
Status complete(const List& before) {
  const Result<std::vector<PublicKey>> trusted = trusted_keys(*settings());
  if (!trusted) return tl::unexpected(trusted.error());
  auto list = std::make_unique<Bundles>(*before);
  if (list->first && list->first->scarce) list->first = open(list->first->path, *trusted);
  if (list->embedded && list->embedded->scarce) warn_of_unopened(list->embedded.emplace(open_embedded()));
  list->others.clear();
  for (const OpenBundle& bundle : before->others) {
    if (bundle.scarce)
      append(*list, bundle.path, *trusted);
    else if (!has(*list, bundle))
      list->others.push_back(bundle);
  }
  const bool progress = lacking(*list) < lacking(*before) || list->others.size() != before->others.size();
  if (progress) replace(before, std::move(list));
  return {};
}

}  // namespace

Result<std::shared_ptr<const Bundles>> bundles() {
  const List list = current_list();
  if (list == nullptr) {
    Result<std::unique_ptr<Bundles>> made = from_settings();
    if (!made) return tl::unexpected(made.error());
    replace(nullptr, std::move(*made));
  } else if (lacking(*list) > 0) {
    if (Status status = complete(list); !status) return tl::unexpected(status.error());
  } else {
    return list;
  }
  return current_list();
}

int added_bundles() {
  const List list = current_list();
  return list == nullptr ? 0 : list->changes;
}

Result<std::shared_ptr<const Bundle>> open_trusted(const std::string& path) {
  const Result<Settings>& current = settings();
  if (!current) return tl::unexpected(current.error());
  const Result<std::vector<PublicKey>> trusted = trusted_keys(*current);
  if (!trusted) return tl::unexpected(trusted.error());
  Result<std::shared_ptr<const Bundle>> bundle = open_to_use(path, *trusted);
  if (bundle) return bundle;
  return fail(bundle.error().kind,
              fmt::format("the bundle {} cannot be used: {}", printable(path), bundle.error().message));
}

Status add_bundle(const std::string& path, NamedBy named_by) {
  const Result<std::shared_ptr<const Bundle>> bundle = open_trusted(path);
  if (!bundle) return tl::unexpected(bundle.error());
  for (;;) {
    const Result<List> before = bundles();
    if (!before) return tl::unexpected(before.error());
    OpenBundle added{path, *bundle, {}, false, named_by};
    const auto decides_now = [&](const OpenBundle& other) {
      return named_by == NamedBy::program && other.named_by == NamedBy::package && same(added, other);
    };
    if (has(**before, added) && std::ranges::none_of((*before)->others, decides_now)) return {};
    auto list = std::make_unique<Bundles>(**before);
    std::erase_if(list->others,
                  [&](const OpenBundle& other) { return other.path == path || decides_now(other); });
    list->others.push_back(std::move(added));
    ++list->changes;
    if (!replace(*before, std::move(list))) continue;
    if (!(*bundle)->about().tuning.empty()) note_choice_change();
    return {};
  }
}

}  // namespace regard
