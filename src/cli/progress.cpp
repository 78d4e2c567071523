#include "cli/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <system_error>
#include <utility>

namespace regard::cli {

Progress::Progress(std::size_t total, std::string what)
    : terminal_(isatty(STDERR_FILENO) != 0), what_(std::move(what)), total_(total) {}

void Progress::step() {
  const std::lock_guard lock(mutex_);
  ++done_;
  const bool last = done_ == total_;
  if (!terminal_ && !last && Clock::now() - told_ < std::chrono::seconds(10)) return;
  told_ = Clock::now();
  const double seconds = std::chrono::duration<double>(told_ - start_).count();
  const double left = seconds / static_cast<double>(done_) * static_cast<double>(total_ - done_);
  const std::string line = fmt::format(
      "{}regard: {} of {} {}, {:.0f} s{}{}", terminal_ ? "\r\033[K" : "", done_, total_, what_, seconds,
      last ? "" : fmt::format(", about {:.0f} s left", left), terminal_ && !last ? "" : "\n");
  std::fputs(line.c_str(), stderr);
}

Waiting::Waiting(std::string what, std::chrono::milliseconds first) : what_(std::move(what)), first_(first) {
  try {
    thread_ = std::thread([this] {
      std::unique_lock lock(mutex_);
      report(lock);
    });
  } catch (const std::system_error&) {  // without a thread for it, nothing is reported
  }
}

Waiting::~Waiting() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  changed_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void Waiting::report(std::unique_lock<std::mutex>& lock) {
  const bool terminal = isatty(STDERR_FILENO) != 0;
  const std::chrono::seconds step(terminal ? 1 : 10);
  const auto start = std::chrono::steady_clock::now();
  const auto wait = [&](std::chrono::milliseconds time) {
    return changed_.wait_for(lock, time, [&] { return over_; });
  };
  if (wait(first_)) return;
  do {
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    const std::string line = fmt::format("regard: {}, {:.0f} s", what_, seconds);
    std::fputs((terminal ? "\r\033[K" + line : line + "\n").c_str(), stderr);
  } while (!wait(step));
  if (terminal) std::fputs("\r\033[K", stderr);
}

}  // namespace regard::cli
