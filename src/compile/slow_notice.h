// Tells a waiting user that a compile is running: one line after 0.3 s, one at its end.
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace regard {

class SlowNotice {
 public:
  /// Starts the clock; silent, and without a thread, where no one would read the lines.
  SlowNotice(std::string kernel, std::string compiler);
  ~SlowNotice();
  SlowNotice(const SlowNotice&) = delete;
  SlowNotice& operator=(const SlowNotice&) = delete;

  /// The last line, if there was a first.
  void end(bool succeeded, double seconds);

 private:
  void stop();

  std::string kernel_;
  std::mutex mutex_;
  std::condition_variable ended_;
  bool over_ = false, told_ = false;
  std::thread clock_;
};

}  // namespace regard
