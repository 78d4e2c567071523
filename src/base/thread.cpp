#include "base/thread.h"

#include <pthread.h>
#include <signal.h>

#include <cerrno>
#include <ctime>
#include <initializer_list>

namespace regard {

NoSignals::NoSignals() {
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

NoSignals::~NoSignals() {
  const int error = errno;
  const timespec now{};
  while (sigtimedwait(&taken_, nullptr, &now) > 0) {
  }
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  errno = error;
}

}  // namespace regard
