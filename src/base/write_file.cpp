#include "base/write_file.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>

namespace regard {
namespace {

/// Blocks SIGXFSZ and SIGPIPE in this thread, and takes back those that came meanwhile.
class NoSignals {
 public:
  NoSignals() {
    sigset_t pending, blocked;
    sigpending(&pending);
    sigemptyset(&blocked);
    sigemptyset(&taken_);
    for (const int signal : {SIGXFSZ, SIGPIPE}) {
      sigaddset(&blocked, signal);
      if (sigismember(&pending, signal) != 1) sigaddset(&taken_, signal);
    }
    pthread_sigmask(SIG_BLOCK, &blocked, &before_);
  }
  ~NoSignals() {
    const int error = errno;
    const timespec now{};
    while (sigtimedwait(&taken_, nullptr, &now) > 0) {
    }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    errno = error;
  }
  NoSignals(const NoSignals&) = delete;
  NoSignals& operator=(const NoSignals&) = delete;

 private:
  sigset_t taken_, before_;
};

}  // namespace

bool write_all(int file, std::span<const std::byte> bytes) {
  const NoSignals guard;
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
