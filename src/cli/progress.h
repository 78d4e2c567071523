// Progress of a long operation, on standard error.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <string>
#include <thread>

namespace regard::cli {

/// A line that is overwritten on a terminal; elsewhere a new one every ten seconds. Threads can share it.
class Progress {
 public:
  /// `total` of `what` ("kernels").
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

/// The same for one step of unknown length, once it has taken as long as `first`: what it is, and for how
/// many seconds it has been running.
class Waiting {
 public:
  explicit Waiting(std::string what, std::chrono::milliseconds first = std::chrono::seconds(3));
  ~Waiting();
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

 private:
  void report(std::unique_lock<std::mutex>& lock);

  const std::string what_;
  const std::chrono::milliseconds first_;
  bool over_ = false;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::thread thread_;
};

}  // namespace regard::cli
