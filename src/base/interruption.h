// Whether a call that waits for a compiler is to end before its time. What knows (a command's signal handler,
// Python's) is in front of the library, which has no signal handlers of its own.
#pragma once

#include <chrono>
#include <mutex>

#include "base/result.h"

namespace regard {

/// Null: nobody is asked.
void ask_whether_interrupted(int (*asked)());

/// Asked by whoever waits, in the thread of the call, several times a second. Once true, it stays so for as
/// long as the call lasts.
bool interrupted();

inline tl::unexpected<Error> interruption() {
  return fail(ErrorKind::interrupted, "interrupted while a kernel was being compiled");
}

/// Waits for a mutex that is held while a compiler runs; without it where the call is interrupted.
inline std::unique_lock<std::timed_mutex> lock_unless_interrupted(std::timed_mutex& mutex) {
  std::unique_lock lock(mutex, std::defer_lock);
  while (!lock.try_lock_for(std::chrono::milliseconds(50)) && !interrupted()) {
  }
  return lock;
}

}  // namespace regard
