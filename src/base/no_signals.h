// Writing to a file or a socket without the signals that would end the host program.
#pragma once

#include <csignal>

namespace regard {

/// Blocks SIGXFSZ and SIGPIPE in this thread, and takes back those that came meanwhile.
class NoSignals {
 public:
  NoSignals();
  ~NoSignals();
  NoSignals(const NoSignals&) = delete;
  NoSignals& operator=(const NoSignals&) = delete;

 private:
  sigset_t taken_, before_;
};

}  // namespace regard
