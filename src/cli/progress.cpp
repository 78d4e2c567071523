#include "cli/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
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

}  // namespace regard::cli
