#include "base/process_lifetime.h"

#include <pthread.h>

namespace regard {
namespace {
std::atomic<unsigned> forks{0};

// Registered while the library is loaded, not at the first call, which may be the one that a fork interrupts.
[[maybe_unused]] const int registered =
    pthread_atfork(nullptr, nullptr, [] { forks.fetch_add(1, std::memory_order_relaxed); });
}  // namespace

unsigned fork_count() {
  return forks.load(std::memory_order_relaxed);
}

}  // namespace regard
