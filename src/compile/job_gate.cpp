#include "compile/job_gate.h"

#include <pthread.h>

#include <algorithm>
#include <new>
#include <semaphore>

#include "base/machine.h"
#include "base/settings.h"

namespace regard {
namespace {

constexpr std::int64_t bytes_per_compile = 300'000'000;  // measured 50 MB with g++, 107 MB with clang++

using Semaphore = std::counting_semaphore<>;

struct Gate {
  int jobs = compile_jobs(settings() ? settings()->compile_jobs : 0, usable_cores(), available_memory());
  alignas(Semaphore) std::byte place[sizeof(Semaphore)];
  Semaphore* free = new (place) Semaphore(jobs);
};

Gate& gate() {
  static Gate* const only = [] {
    static Gate built;
    // Compiles of the parent's other threads do not go on in a forked child: their slots are free there.
    pthread_atfork(nullptr, nullptr, [] { gate().free = new (gate().place) Semaphore(gate().jobs); });
    return &built;
  }();
  return *only;
}

}  // namespace

int compile_jobs(std::int64_t asked, int cores, std::int64_t memory_bytes) {
  if (asked > 0) return static_cast<int>(std::min<std::int64_t>(asked, 4096));
  return static_cast<int>(std::clamp<std::int64_t>(memory_bytes / bytes_per_compile, 1, std::max(1, cores)));
}

CompileSlot::CompileSlot() {
  gate().free->acquire();
}
CompileSlot::~CompileSlot() {
  gate().free->release();
}

}  // namespace regard
