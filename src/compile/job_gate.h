// How many compiles of this user run at a time on this machine: limited by cores and by memory.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <semaphore>

#include "cache/directory.h"
#include "cache/lock.h"

namespace regard {

/// `asked` (the setting; 0 = none) or as many as cores and memory allow, at least 1.
int compile_jobs(std::int64_t asked, int cores, std::int64_t memory_bytes);

/// Holds one of this process's compile slots, and one of those that all processes share; waits for both
/// together at most `seconds`, or until it is interrupted, and proceeds without those that it did not get.
class CompileSlot {
 public:
  explicit CompileSlot(double seconds);
  CompileSlot(const CompileSlot&) = delete;
  CompileSlot& operator=(const CompileSlot&) = delete;

 private:
  struct Release {
    void operator()(std::counting_semaphore<>* slots) const { slots->release(); }
  };
  /// A slot of this process; null: waiting for it ended. The first member, so that it is released even if the
  /// others throw.
  std::unique_ptr<std::counting_semaphore<>, Release> own_;
  std::optional<cache::Directory> folder_;
  std::optional<cache::ProcessLock> shared_;
};

}  // namespace regard
