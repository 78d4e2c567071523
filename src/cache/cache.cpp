#include "cache/cache.h"

#include <fmt/format.h>

#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <utility>

#include "base/interruption.h"
#include "base/log.h"
#include "base/process.h"
#include "base/settings.h"
#include "base/text.h"
#include "cache/directory.h"
#include "cache/entry.h"
#include "cache/flight.h"
#include "cache/lock.h"
#include "cache/maintenance.h"

namespace regard {
namespace {

namespace fs = std::filesystem;

// Publishing is best effort; one warning per process is enough.
void warn_about(const std::string& sentence) {
  static std::atomic<bool> warned{false};
  if (!warned.exchange(true)) warn_once(sentence);
}

std::string absolute_folder(const std::string& path) {
  std::error_code ignored;
  std::string absolute = fs::absolute(path, ignored).lexically_normal().string();
  while (absolute.size() > 1 && absolute.back() == '/') absolute.pop_back();
  return absolute;
}

/// Whether the existing part of the path ends in a folder of this user or of the system.
bool in_own_folder(const std::string& path) {
  struct stat status;
  fs::path nearest = path;
  while (::stat(nearest.c_str(), &status) != 0 && nearest.has_relative_path())
    nearest = nearest.parent_path();
  return !nearest.has_relative_path() || status.st_uid == geteuid() || status.st_uid == 0;
}

}  // namespace

Cache::Cache(std::string directory, std::int64_t bound_bytes, double lock_seconds,
             std::vector<PublicKey> trusted)
    : directory_(absolute_folder(directory)),
      bound_bytes_(bound_bytes),
      lock_seconds_(lock_seconds),
      trusted_(std::move(trusted)),
      flights_(std::make_unique<cache::Flights>()) {}

Cache::~Cache() = default;

std::string Cache::state() const {
  return cache::state_of_directory(directory_);
}

Result<CacheEntry> Cache::read(const Digest& key, bool& missing) const {
  const Result<cache::Directory> directory = cache::Directory::open(directory_);
  missing = !directory;
  if (!directory) return tl::unexpected(directory.error());
  const Result<RegularFile> file = directory->file(cache::entry_name(key), missing);
  if (!file) return tl::unexpected(file.error());
  Result<CacheEntry> entry = cache::read_entry(key, *file);
  if (!entry) return entry;
  if (!is_trusted(entry->origin, trusted_)) return invalid(untrusted);
  cache::touch(*file);
  return entry;
}

std::optional<CacheEntry> Cache::find(const Digest& key, Missed* missed) {
  bool missing = false;
  Result<CacheEntry> entry = read(key, missing);
  if (entry) return std::move(*entry);
  const bool scarce = is_scarce(entry);
  if (missed != nullptr) missed->scarce = missed->scarce || scarce;
  if (missing || scarce) return std::nullopt;
  if (missed != nullptr) missed->why = entry.error().message;
  log_line("cache",
           fmt::format("entry {} is not used and will be replaced: {}", key.hex(), entry.error().message));
  return std::nullopt;
}

Status Cache::readable() const {
  const Result<cache::Directory> folder = cache::Directory::open(directory_),
                                 as_its_entries = cache::Directory::open(directory_);
  return as_its_entries ? Status() : tl::unexpected(as_its_entries.error());
}

Status Cache::write(const Digest& key, const CacheEntry& entry) {
  if (!entry.uncacheable.empty()) return invalid(entry.uncacheable);
  if (entry.manifest.size() > largest_manifest_bytes || entry.payload.size() > largest_payload_bytes) {
    return invalid(fmt::format(
        "a kernel of {} bytes with a manifest of {} is not kept: the kernel cache "
        "takes up to {} and {} bytes",
        entry.payload.size(), entry.manifest.size(), largest_payload_bytes, largest_manifest_bytes));
  }
  const Result<cache::Directory> directory = cache::Directory::open_or_make(directory_);
  if (!directory) return tl::unexpected(directory.error());
  if (const Status written = directory->write(cache::entry_name(key), cache::encode(key, entry)); !written) {
    return invalid(
        fmt::format("compiled kernels are not kept: cannot write to the kernel cache {}: {}; free "
                    "space there, or set REGARD_CACHE_DIR",
                    in_quotes(directory_), written.error().message));
  }
  cache::evict(*directory, bound_bytes_, cache::entry_name(key));
  return {};
}

Status Cache::publish(const Digest& key, const CacheEntry& entry) {
  Status written = write(key, entry);
  if (!written) warn_about(written.error().message);
  return written;
}

Result<CacheEntry> Cache::get(const Digest& key, const std::function<Result<CacheEntry>()>& make,
                              bool* from_cache, std::string* not_kept) {
  if (from_cache != nullptr) *from_cache = true;
  if (std::optional<CacheEntry> entry = find(key)) return std::move(*entry);
  cache::Made made = flights_->run(key, [&]() -> cache::Made {
    const Result<cache::Directory> directory = cache::Directory::open_or_make(directory_);
    std::optional<cache::ProcessLock> lock;
    if (directory) {
      lock.emplace(*directory, key.hex() + std::string(cache::lock_suffix), lock_seconds_);
      // The previous holder of the lock may have made the entry that we need.
      if (std::optional<CacheEntry> entry = find(key)) return {std::move(*entry), true};
      if (!lock->holder().empty()) {
        if (interrupted()) return {interruption()};
        warn_once(fmt::format("waited {} s for {} to make a kernel; making it here too", lock_seconds_,
                              lock->holder()));
      }
    }
    cache::Made own{make()};
    if (!own.entry) return own;
    if (const Status kept = publish(key, *own.entry); !kept) own.not_kept = kept.error().message;
    return own;
  });
  if (from_cache != nullptr) *from_cache = made.from_cache;
  if (not_kept != nullptr) *not_kept = std::move(made.not_kept);
  return std::move(made.entry);
}

std::string default_cache_directory() {
  if (const Result<Settings>& current = settings(); current && !current->cache_dir.empty()) {
    return current->cache_dir;
  }
  for (const auto& [name, inside] :
       {std::pair("XDG_CACHE_HOME", "/regard"), std::pair("HOME", "/.cache/regard")}) {
    const char* const folder = variable(name);
    if (folder == nullptr || *folder != '/') continue;
    // Not where `sudo` left another user's folder in the variable: that user could not use a folder that root
    // made in their home.
    const std::string path = folder + std::string(inside);
    return in_own_folder(path) ? path : folder_in_tmp();
  }
  return folder_in_tmp();
}

std::string folder_in_tmp() {
  return fmt::format("/tmp/regard-{}", geteuid());
}

}  // namespace regard
