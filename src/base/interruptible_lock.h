#pragma once

#include <chrono>
#include <mutex>

#include "base/interruption.h"

namespace regard {

/// Waits for a mutex that is held while a compiler runs; without it where the call is interrupted.
inline std::unique_lock<std::timed_mutex> lock_unless_interrupted(std::timed_mutex& mutex) {
  std::unique_lock lock(mutex, std::defer_lock);
  while (!lock.try_lock_for(std::chrono::milliseconds(50)) && !interrupted()) {
  }
  return lock;
}

}  // namespace regard
