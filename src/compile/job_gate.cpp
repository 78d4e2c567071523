#include "compile/job_gate.h"

#include <algorithm>
#include <semaphore>

#include "base/fork_local.h"
#include "base/machine.h"
#include "base/settings.h"

namespace regard {
namespace {

constexpr std::int64_t bytes_per_compile = 300'000'000;  // measured 50 MB with g++, 107 MB with clang++

/// Fresh in a forked child, where compiles of the parent's other threads do not go on.
struct Gate {
  std::counting_semaphore<> free{
      compile_jobs(settings() ? settings()->compile_jobs : 0, usable_cores(), available_memory())};
};
ForkLocal<Gate>& process_gate = *new ForkLocal<Gate>;

}  // namespace

int compile_jobs(std::int64_t asked, int cores, std::int64_t memory_bytes) {
  if (asked > 0) return static_cast<int>(std::min<std::int64_t>(asked, 4096));
  return static_cast<int>(std::clamp<std::int64_t>(memory_bytes / bytes_per_compile, 1, std::max(1, cores)));
}

CompileSlot::CompileSlot() {
  process_gate.get().free.acquire();
}
CompileSlot::~CompileSlot() {
  process_gate.get().free.release();
}

}  // namespace regard
