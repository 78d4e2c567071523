#include "cache/maintenance.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <utility>

#include "base/result.h"
#include "base/temporary.h"
#include "cache/entry.h"
#include "cache/lock.h"

namespace regard {
namespace cache {
namespace {

constexpr std::string_view entry_suffix = ".regard";
constexpr std::int64_t clock_slack_seconds = 60;  // the clocks of several machines differ a little

std::optional<Digest> key_before(std::string_view name, std::string_view suffix) {
  if (!name.ends_with(suffix)) return std::nullopt;
  return parse_digest(name.substr(0, name.size() - suffix.size()));
}

// "<entry>.<process>.<serial>.tmp": being written now, or left when its writer was killed.
bool is_temporary(std::string_view name) {
  const std::size_t entry = 64 + entry_suffix.size();
  if (!name.ends_with(temporary_suffix)) return false;
  return name.starts_with(probe_prefix) || (name.size() > entry && key_of(name.substr(0, entry)));
}

void remove_leftovers(const Directory& directory, const Named& item) {
  if (is_temporary(item.name)) {
    const Descriptor file(
        openat(directory.descriptor(), item.name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    // A file that could not be opened only for lack of descriptors may be in the middle of being written.
    if (file ? is_abandoned(file.number()) : !is_scarce(errno)) directory.remove(item.name);
  } else if (key_before(item.name, lock_suffix)) {
    if (!item.regular) return directory.remove(item.name);  // it cannot be locked
    // Getting the lock at once means that its holder is dead; releasing it removes the file.
    const ProcessLock lock(directory, item.name, 0);
  }
}

/// What is wrong with it, or (`no_memory`) why that cannot be determined now.
Status whole(const Directory& directory, const Named& item, const Digest& key) {
  bool missing = false;
  const Result<RegularFile> file = directory.file(item.name, missing);
  if (missing) return invalid("it has just been removed");
  const Result<CacheEntry> entry = file ? read_entry(key, *file) : tl::unexpected(file.error());
  return entry ? Status() : tl::unexpected(entry.error());
}

}  // namespace

std::string entry_name(const Digest& key) {
  return key.hex() + std::string(entry_suffix);
}

std::optional<Digest> key_of(std::string_view name) {
  return key_before(name, entry_suffix);
}

void evict(const Directory& directory, std::int64_t bound_bytes, const std::string& keep) {
  std::vector<Named> entries;
  std::int64_t total = 0;
  for (Named& item : directory.names()) {
    if (!key_of(item.name)) {
      if (is_temporary(item.name)) remove_leftovers(directory, item);
      continue;
    }
    if (item.bytes > largest_entry_bytes) {  // not written by the cache: it must not push out what was
      directory.remove(item.name);
      continue;
    }
    total += item.bytes;
    if (item.name != keep) entries.push_back(std::move(item));
  }
  // Dates in the future are from before the clock was set back; a hit would have corrected them, so they
  // count as oldest.
  const std::int64_t latest = std::time(nullptr) + clock_slack_seconds;
  std::ranges::stable_sort(entries, {}, [latest](const Named& item) {
    return std::pair(item.used_unix_seconds <= latest, item.used_unix_seconds);
  });
  for (const Named& item : entries) {
    if (total <= bound_bytes) return;
    directory.remove(item.name);  // a reader that has it open is not disturbed
    total -= item.bytes;
  }
}

}  // namespace cache

// `full` reads and checks every entry completely; else only what comes before the payload is read.
std::vector<CacheEntryInfo> Cache::survey(bool full) const {
  std::vector<CacheEntryInfo> infos;
  const Result<cache::Directory> directory = cache::Directory::open(directory_);
  if (!directory) return infos;
  for (const cache::Named& item : directory->names()) {
    const std::optional<Digest> key = cache::key_of(item.name);
    if (!key) continue;
    CacheEntryInfo info{.key = key->hex(), .bytes = item.bytes, .used_unix_seconds = item.used_unix_seconds};
    bool missing = false;
    const Result<RegularFile> file = directory->file(item.name, missing);
    if (missing) continue;
    Result<cache::Beginning> beginning =
        file ? cache::read_beginning(*key, *file) : tl::unexpected(file.error());
    Status looked = beginning ? Status() : tl::unexpected(beginning.error());
    if (beginning) {
      info.manifest = std::move(beginning->manifest);
      info.origin = beginning->origin;
      info.trusted = is_trusted(info.origin, trusted_);
      if (full) looked = cache::whole(*directory, item, *key);
    }
    if (!looked) (is_scarce(looked) ? info.unread : info.problem) = looked.error().message;
    infos.push_back(std::move(info));
  }
  return infos;
}

std::vector<CacheEntryInfo> Cache::list() {
  return survey(/*full=*/false);
}

std::vector<CacheEntryInfo> Cache::verify() {
  return survey(/*full=*/true);
}

CacheStat Cache::stat() {
  CacheStat stat{directory_, state(), 0, 0, bound_bytes_, 0};
  const Result<cache::Directory> directory = cache::Directory::open(directory_);
  if (!directory) return stat;
  for (const cache::Named& item : directory->names()) {
    if (cache::key_of(item.name)) {
      ++stat.entries;
      stat.bytes += item.bytes;
    } else if (cache::is_temporary(item.name) || cache::key_before(item.name, cache::lock_suffix)) {
      ++stat.leftovers;
    }
  }
  return stat;
}

CacheStat Cache::gc() {
  if (const Result<cache::Directory> directory = cache::Directory::open(directory_)) {
    for (const cache::Named& item : directory->names()) {
      const std::optional<Digest> key = cache::key_of(item.name);
      if (!key) {
        cache::remove_leftovers(*directory, item);
      } else if (const Status state = cache::whole(*directory, item, *key); !state && !is_scarce(state)) {
        directory->remove(item.name);
      }
    }
    cache::evict(*directory, bound_bytes_, "");
  }
  return stat();
}

CacheStat Cache::clean() {
  if (const Result<cache::Directory> directory = cache::Directory::open(directory_)) {
    for (const cache::Named& item : directory->names()) {
      cache::key_of(item.name) ? directory->remove(item.name) : cache::remove_leftovers(*directory, item);
    }
  }
  return stat();
}

}  // namespace regard
