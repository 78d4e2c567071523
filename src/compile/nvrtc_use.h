// When NVRTC may be called. Its objects are destroyed when the process ends, also under a thread that is
// inside it; and a forked child has its locks as they were at the fork, where nobody releases those of other
// threads. So the end of the process and a fork both wait for the threads that are inside.
#pragma once

namespace regard {

/// Stands around calls of NVRTC that belong together; waits while the process forks.
class NvrtcUse {
 public:
  NvrtcUse();
  ~NvrtcUse();
  NvrtcUse(const NvrtcUse&) = delete;
  NvrtcUse& operator=(const NvrtcUse&) = delete;

  /// Why NVRTC must not be called, or has to come back soon; null while all is well.
  const char* refusal() const;
};

/// To be called whenever NVRTC has made objects: of what is registered for the process' end, the last comes
/// first.
void wait_for_nvrtc_at_exit();

}  // namespace regard
