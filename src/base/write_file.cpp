#include "base/write_file.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>

namespace regard {
namespace {

/// Blocks SIGXFSZ in this thread, and takes back the one that came meanwhile.
class NoSizeSignal {
 public:
  NoSizeSignal() {
    sigemptyset(&size_signal_);
    sigaddset(&size_signal_, SIGXFSZ);
    sigset_t pending;
    sigpending(&pending);
    pending_before_ = sigismember(&pending, SIGXFSZ) == 1;
    pthread_sigmask(SIG_BLOCK, &size_signal_, &before_);
  }
  ~NoSizeSignal() {
    const int error = errno;
    const timespec now{};
    if (!pending_before_) sigtimedwait(&size_signal_, nullptr, &now);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    errno = error;
  }
  NoSizeSignal(const NoSizeSignal&) = delete;
  NoSizeSignal& operator=(const NoSizeSignal&) = delete;

 private:
  sigset_t size_signal_, before_;
  bool pending_before_;
};

}  // namespace

bool write_all(int file, std::span<const std::byte> bytes) {
  const NoSizeSignal guard;
  while (!bytes.empty()) {
    const ssize_t written = write(file, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written == 0) errno = ENOSPC;
    if (written <= 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return true;
}

}  // namespace regard
