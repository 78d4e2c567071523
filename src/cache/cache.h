// The content-addressed store of compiled kernels. It knows bytes and keys, not what
// they mean.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/digest.h"
#include "base/result.h"
#include "cache/cache_entry.h"

namespace regard {

namespace cache {
class Flights;
}

struct CacheEntryInfo {
  std::string key;  ///< hex
  std::string manifest;
  std::int64_t bytes = 0;
  std::int64_t used_unix_seconds = 0;
  Origin origin;
  std::string problem;  ///< empty, or why verify calls it bad
  std::string unread;   ///< empty, or what was lacking to look at it
  bool trusted = true;  ///< whether it would be used
};

struct CacheStat {
  std::string directory;
  std::string state;  ///< "ok", or the sentence that says why it is not used
  std::int64_t entries = 0, bytes = 0, bound_bytes = 0;
  std::int64_t litter = 0;  ///< files being written and lock files: in use now, or left by a killed process
};

class Cache {
 public:
  /// `directory` may not exist yet. A directory that others can write, or that belongs to someone else, is
  /// refused with a sentence in state(); the cache then misses and publishes nothing. Where there are trusted
  /// keys, so does an entry of another origin (Origin).
  Cache(std::string directory, std::int64_t bound_bytes, double lock_seconds,
        std::vector<PublicKey> trusted = {});
  ~Cache();

  const std::string& directory() const { return directory_; }
  std::string state() const;

  struct Missed {
    bool scarce = false;  ///< there may be one all the same, as descriptors or memory ran out
    std::string why;      ///< what is wrong with the one that is there; empty when there is none
  };
  /// A verified entry, or nothing. A bad entry is a miss and is replaced by the next publish. `missed` may be
  /// null.
  std::optional<CacheEntry> find(const Digest& key, Missed* missed = nullptr);
  /// Whether the folder can be opened and its entries be read; not whether there are any.
  Status readable() const;
  /// The error says why it could not be written.
  Status write(const Digest& key, const CacheEntry&);
  /// The same as best effort: without success there is one warning per process.
  Status publish(const Digest& key, const CacheEntry&);

  /// find, else make() exactly once among threads and processes that ask for this key at the same time,
  /// publish. The caller gets what make() gave even when publishing failed; what make() throws becomes an
  /// error. `from_cache` (may be null) tells which it was, `not_kept` (likewise) why publishing failed.
  Result<CacheEntry> get(const Digest& key, const std::function<Result<CacheEntry>()>& make, bool* from_cache,
                         std::string* not_kept = nullptr);

  std::vector<CacheEntryInfo> list();
  CacheStat stat();
  /// Reads every entry; `problem` says what is wrong with a bad one, `unread` that it cannot be said now.
  std::vector<CacheEntryInfo> verify();
  /// Removes litter and bad entries, then least recently used ones over the bound. What is left.
  CacheStat gc();
  /// Removes every entry, and litter. What is left.
  CacheStat clean();

 private:
  /// `missing`: there is none.
  Result<CacheEntry> read(const Digest& key, bool& missing) const;
  /// As list() and verify() tell of one; whether it is used, which depends on whom this cache trusts.
  std::vector<CacheEntryInfo> survey(bool full) const;

  std::string directory_;
  std::int64_t bound_bytes_;
  double lock_seconds_;
  std::vector<PublicKey> trusted_;
  std::unique_ptr<cache::Flights> flights_;
};

/// REGARD_CACHE_DIR, else XDG_CACHE_HOME/regard, else HOME/.cache/regard; where neither is set, or the one
/// that is belongs to another user, a folder of this user's in /tmp.
std::string default_cache_directory();

/// The one in /tmp.
std::string folder_in_tmp();

}  // namespace regard
