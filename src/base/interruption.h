// Whether a call that waits for a compiler should end early. What decides that (a command's signal handler,
// Python's) is outside the library, which has no signal handlers of its own.
#pragma once

#include <chrono>
#include <mutex>

#include "base/result.h"

namespace regard {

/// Null: nothing is asked.
void ask_whether_interrupted(int (*asked)());

/// Polled by code that waits, in the thread of the call, several times a second. Once true, it stays true for
/// the rest of the call.
bool interrupted();

inline tl::unexpected<Error> interruption() {
  return fail(ErrorKind::interrupted, "interrupted while a kernel was being compiled");
}

/// Waits for a mutex that is held while a compiler runs; returns without it where the call is interrupted.
inline std::unique_lock<std::timed_mutex> lock_unless_interrupted(std::timed_mutex& mutex) {
  std::unique_lock lock(mutex, std::defer_lock);
  while (!lock.try_lock_for(std::chrono::milliseconds(50)) && !interrupted()) {
  }
  return lock;
}

}  // namespace regard
