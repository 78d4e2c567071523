// When a run-time compiler (NVRTC, hiprtc) may be called. Its objects are destroyed when the process ends,
// even while a thread is inside it; and a forked child has its locks in the state of the fork, where nothing
// releases those of other threads. So both process exit and a fork wait for the threads that are inside.
#pragma once

namespace regard {

/// Encloses calls of a compiler that belong together; waits while the process forks.
class RtcUse {
 public:
  RtcUse();
  ~RtcUse();
  RtcUse(const RtcUse&) = delete;
  RtcUse& operator=(const RtcUse&) = delete;

  /// Why it must not be called, or must return soon; null otherwise.
  const char* refusal() const;
};

/// To be called whenever a compiler has created objects: exit handlers run in reverse order of registration.
/// The exit of the main thread waits without it, if that thread loaded the library.
void wait_for_rtc_at_exit();

}  // namespace regard
