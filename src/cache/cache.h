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
  std::string problem;  ///< empty, or what is wrong with the entry
  std::string unread;   ///< empty, or what was lacking to look at it
  bool trusted = true;  ///< whether its origin is trusted; others are not used
};

struct CacheStat {
  std::string directory;
  std::string state;  ///< "ok", or the sentence that says why it is not used
  std::int64_t entries = 0, bytes = 0, bound_bytes = 0;
  std::int64_t leftovers =
      0;  ///< files being written and lock files: in use now, or left by a killed process
};

class Cache {
 public:
  /// `directory` may not exist yet. A directory that others can write to, or that belongs to another user, is
  /// refused with a sentence in state(); the cache then always misses and publishes nothing. Where there are
  /// trusted keys, entries of untrusted origin (Origin) are refused as well.
  Cache(std::string directory, std::int64_t bound_bytes, double lock_seconds,
        std::vector<PublicKey> trusted = {});
  ~Cache();

  const std::string& directory() const { return directory_; }
  std::string state() const;

  struct Missed {
    bool scarce = false;  ///< it may exist all the same, as descriptors or memory ran out
    std::string why;      ///< what is wrong with the existing one; empty when there is none
  };
  /// A verified entry, or nothing. A bad entry is a miss and is replaced by the next publish. `missed` can be
  /// null.
  std::optional<CacheEntry> find(const Digest& key, Missed* missed = nullptr);
  /// Whether the folder can be opened and its entries can be read; not whether there are any.
  Status readable() const;
  /// The error says why it could not be written.
  Status write(const Digest& key, const CacheEntry&);
  /// The same as best effort: failures cause one warning per process.
  Status publish(const Digest& key, const CacheEntry&);

  /// Finds the entry; else calls make() exactly once among threads and processes that need this key at the
  /// same time, and publishes its result. The caller gets the result of make() even when publishing failed;
  /// an exception from make() becomes an error. `from_cache` (can be null) reports which it was, `not_kept`
  /// (likewise) why publishing failed.
  Result<CacheEntry> get(const Digest& key, const std::function<Result<CacheEntry>()>& make, bool* from_cache,
                         std::string* not_kept = nullptr);

  std::vector<CacheEntryInfo> list();
  CacheStat stat();
  /// Reads every entry; `problem` says what is wrong with a bad one, `unread` why it could not be checked
  /// now.
  std::vector<CacheEntryInfo> verify();
  /// Removes leftovers and bad entries, then the least recently used entries above the size limit. Returns
  /// what is left.
  CacheStat gc();
  /// Removes every entry and all leftovers. Returns what is left.
  CacheStat clean();

 private:
  /// `missing`: there is no such entry.
  Result<CacheEntry> read(const Digest& key, bool& missing) const;
  /// An entry as list() and verify() report it; whether it is used depends on which keys this cache trusts.
  std::vector<CacheEntryInfo> survey(bool full) const;

  std::string directory_;
  std::int64_t bound_bytes_;
  double lock_seconds_;
  std::vector<PublicKey> trusted_;
  std::unique_ptr<cache::Flights> flights_;
};

/// REGARD_CACHE_DIR, else XDG_CACHE_HOME/regard, else HOME/.cache/regard; where neither is set, or the set
/// one belongs to another user, a folder of this user in /tmp.
std::string default_cache_directory();

/// The one in /tmp.
std::string folder_in_tmp();

}  // namespace regard
