// How far a long answer is, on standard error.
#pragma once

#include <chrono>
#include <cstddef>
#include <mutex>
#include <string>

namespace regard::cli {

/// A line that a terminal overwrites; elsewhere a new one every ten seconds. Threads may share it.
class Progress {
 public:
  /// So many of `what` ("kernels").
  Progress(std::size_t total, std::string what);
  /// One more is done.
  void step();

 private:
  using Clock = std::chrono::steady_clock;

  const bool terminal_;
  const std::string what_;
  const Clock::time_point start_ = Clock::now();
  Clock::time_point told_ = start_;
  std::mutex mutex_;
  std::size_t total_, done_ = 0;
};

}  // namespace regard::cli
