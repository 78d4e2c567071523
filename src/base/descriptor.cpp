#include "base/descriptor.h"

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>

#include "base/process_lifetime.h"

namespace regard {
namespace {

// Descriptor + 1, so that zero is an empty slot. Descriptors that find no slot are not closed in children.
constinit std::array<std::atomic<int>, 256> open_ones{};

void close_all_in_child() {
  for (std::atomic<int>& entry : open_ones) {
    if (const int taken = entry.exchange(0)) close(taken - 1);
  }
}

[[maybe_unused]] const int registered = pthread_atfork(nullptr, nullptr, close_all_in_child);

}  // namespace

int above_standard_streams(int descriptor) {
  if (descriptor < 0 || descriptor > STDERR_FILENO) return descriptor;
  const int higher = fcntl(descriptor, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  const int error = errno;
  close(descriptor);
  if (higher >= 0 && lseek(higher, 0, SEEK_CUR) > 0) {  // another thread has just read or written there
    [[maybe_unused]] const int emptied = ftruncate(higher, 0);
    lseek(higher, 0, SEEK_SET);
  }
  errno = error;
  return higher;
}

Descriptor::~Descriptor() {
  if (number_ < 0) return;
  const int error = errno;
  close(number_);
  errno = error;
}

ForkPrivateFd::ForkPrivateFd(int number) : file_(number), born_(fork_count()) {
  if (!file_) return;
  for (std::atomic<int>& entry : open_ones) {
    int empty = 0;
    if (entry.compare_exchange_strong(empty, file_.number() + 1)) return;
  }
}

ForkPrivateFd::~ForkPrivateFd() {
  if (born_ != fork_count()) {  // closed at the fork; the number may be reused
    file_.release();
    return;
  }
  for (std::atomic<int>& entry : open_ones) {
    int ours = file_.number() + 1;
    if (file_ && entry.compare_exchange_strong(ours, 0)) break;
  }
}

int ForkPrivateFd::number() const {
  return born_ == fork_count() ? file_.number() : -1;
}

}  // namespace regard
