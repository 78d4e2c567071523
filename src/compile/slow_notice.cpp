#include "compile/slow_notice.h"

#include <fmt/format.h>

#include <chrono>
#include <exception>

#include "base/log.h"

namespace regard {
namespace {
constexpr std::chrono::milliseconds patience{300};
}

SlowNotice::SlowNotice(std::string kernel, std::string compiler) : kernel_(std::move(kernel)) {
  if (!heard("compile")) return;
  const auto wait = [this, compiler = std::move(compiler)] {
    std::unique_lock lock(mutex_);
    if (ended_.wait_for(lock, patience, [this] { return over_; })) return;
    told_ = true;
    try {
      tell("compile", fmt::format("compiling {} with {}", kernel_, compiler));
    } catch (const std::exception&) {  // such as lack of memory: then there is no notice
    }
  };
  try {
    clock_ = std::thread(wait);
  } catch (const std::exception&) {  // no more threads, or no memory for one: no notice
  }
}

SlowNotice::~SlowNotice() {
  stop();
}

void SlowNotice::stop() {
  if (!clock_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  ended_.notify_one();
  clock_.join();
}

void SlowNotice::end(bool succeeded, double seconds) {
  stop();
  if (!told_) return;
  tell("compile", fmt::format("{} {} after {:.1f} s", kernel_, succeeded ? "compiled" : "failed", seconds));
}

}  // namespace regard
