#include "cache/cache.h"

#include <fmt/format.h>

#include <unistd.h>
#include <atomic>
#include <cstdlib>
#include <filesystem>

#include "base/log.h"
#include "base/printable.h"
#include "base/settings.h"
#include "cache/directory.h"
#include "cache/entry.h"
#include "cache/flight.h"
#include "cache/lock.h"
#include "cache/maintenance.h"

namespace regard {
namespace {

namespace fs = std::filesystem;

// Publishing is best effort; one sentence per process is enough.
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

}  // namespace

Cache::Cache(std::string directory, std::int64_t bound_bytes, double lock_seconds)
    : directory_(absolute_folder(directory)),
      bound_bytes_(bound_bytes),
      lock_seconds_(lock_seconds),
      flights_(std::make_unique<cache::Flights>()) {}

Cache::~Cache() = default;

std::string Cache::state() const {
  return cache::state_of_directory(directory_);
}

std::optional<CacheEntry> Cache::find(const Digest& key) {
  const Result<cache::Directory> directory = cache::Directory::open(directory_);
  if (!directory) return std::nullopt;
  bool missing = false;
  const auto bytes = directory->read(cache::entry_name(key), /*touch=*/true, missing);
  Result<CacheEntry> entry = bytes ? cache::decode(key, *bytes) : tl::unexpected(bytes.error());
  if (entry) return std::move(*entry);
  if (!missing) {
    log_line("cache",
             fmt::format("entry {} is bad and will be replaced: {}", key.hex(), entry.error().message));
  }
  return std::nullopt;
}

Status Cache::write(const Digest& key, const CacheEntry& entry) {
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
      // Who had the lock has perhaps made what we want.
      if (std::optional<CacheEntry> entry = find(key)) return {std::move(*entry), true};
      if (!lock->holder().empty()) {
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
  const auto absolute = [](const char* path) { return path != nullptr && *path == '/'; };
  if (const Result<Settings>& current = settings(); current && !current->cache_dir.empty()) {
    return current->cache_dir;
  }
  if (const char* caches = std::getenv("XDG_CACHE_HOME"); absolute(caches))
    return std::string(caches) + "/regard";
  if (const char* home = std::getenv("HOME"); absolute(home)) return std::string(home) + "/.cache/regard";
  return fmt::format("/tmp/regard-{}", geteuid());
}

}  // namespace regard
