// One process at a time makes the entry of a key. The lock is the kernel's (flock), so it ends with its
// holder, however that ends. The file contains the holder's name for those who wait.
#pragma once

#include <string>

#include "base/descriptor.h"
#include "cache/directory.h"

namespace regard::cache {

inline constexpr std::string_view lock_suffix = ".lock";

class ProcessLock {
 public:
  /// Waits at most `seconds`. Without a lock afterwards (the deadline passed, the call is interrupted, or the
  /// folder takes no lock files) the caller proceeds without it; `holder()` then names the process that has
  /// it, if any.
  ProcessLock(const Directory&, std::string name, double seconds);
  /// Removes the lock file while it is still held, then releases it.
  ~ProcessLock();
  ProcessLock(const ProcessLock&) = delete;
  ProcessLock& operator=(const ProcessLock&) = delete;

  bool held() const { return static_cast<bool>(file_); }
  const std::string& holder() const { return holder_; }

 private:
  const Directory& directory_;
  std::string name_;
  ForkPrivateFd file_;
  std::string holder_;
};

}  // namespace regard::cache
