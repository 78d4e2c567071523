// Runs the blocks of a grid over threads: one lane per thread; lanes take the next block from one counter.
//
// Threads come from oneTBB. Each call has its own task arena, an idle one or a new one, so that a thread that
// waits for the end of its call is never kept busy by blocks of another call. A forked child gets none of its
// parent's threads, and the parent's scheduler may have been copied in the middle of a step; there each call
// starts plain threads and never touches oneTBB. The same holds when the process ends, as handlers and
// destructors of the program may make calls when oneTBB's own objects are gone.
#include <tbb/global_control.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <memory>

#include "base/parallel_for.h"
#include "base/process_lifetime.h"
#include "base/thread.h"
#include "base/tsan_annotations.h"
#include "device/cpu/cpu.h"

namespace regard::cpu {
namespace {

struct Grid {
  KernelFunction kernel;
  const Arguments& arguments;
  std::int64_t blocks;
  std::byte* scratch;
  std::int64_t scratch_bytes;
  std::atomic<std::int64_t> next{0};

  void run_lane(std::int64_t lane) {
    const FloatMode mode;  // a scheduler thread may have another call's mode
    void* const own = scratch + lane * scratch_bytes;
    for (std::int64_t block; (block = next.fetch_add(1, std::memory_order_relaxed)) < blocks;) {
      kernel(&arguments, block, own);
    }
  }
};

// Which process uses oneTBB: the number of forks before it, plus one. Claimed before the first call into
// oneTBB, so that a child forked during that call knows that it must not touch its copy.
std::atomic<unsigned> tbb_owner{0};

/// This library's objects are destroyed before oneTBB's, as it is linked with oneTBB.
constinit std::atomic<bool> ending{false};
struct AtEnd {
  ~AtEnd() { ending.store(true, std::memory_order_relaxed); }
};
[[maybe_unused]] const AtEnd at_end;

bool may_use_tbb() {
  if (ending.load(std::memory_order_relaxed)) return false;
  const unsigned self = fork_count() + 1;
  unsigned owner = tbb_owner.load(std::memory_order_relaxed);
  if (owner == 0) tbb_owner.compare_exchange_strong(owner, self, std::memory_order_relaxed);
  return owner == 0 || owner == self;
}

/// A oneTBB arena and whether a call uses it. Never deleted, as threads may still run when the process exits;
/// there are as many as the most calls that ever ran at the same time.
struct Arena {
  explicit Arena(int threads) : threads(threads), tasks(threads) {}

  const int threads;
  tbb::task_arena tasks;
  std::atomic<bool> taken{true};
  Arena* next = nullptr;
};
constinit std::atomic<Arena*> arenas{nullptr};

struct GiveBack {
  void operator()(Arena* arena) const { arena->taken.store(false, std::memory_order_release); }
};
using LentArena = std::unique_ptr<Arena, GiveBack>;

/// An arena that no other call uses. Without a lock: the list only grows.
LentArena lend_arena(int threads) {
  Arena* const first = arenas.load(std::memory_order_acquire);
  for (Arena* arena = first; arena != nullptr; arena = arena->next) {
    if (arena->threads != threads || arena->taken.load(std::memory_order_relaxed)) continue;
    if (!arena->taken.exchange(true, std::memory_order_acquire)) return LentArena(arena);
  }
  Arena* const made = new Arena(threads);
  made->next = first;
  while (!arenas.compare_exchange_weak(made->next, made, std::memory_order_acq_rel)) {
  }
  return LentArena(made);
}

int most_tbb_threads() {
  return static_cast<int>(tbb::global_control::active_value(tbb::global_control::max_allowed_parallelism));
}

/// One lane as oneTBB calls it.
struct Lane {
  Grid* grid;

  REGARD_NO_TSAN void operator()(int lane) const {
    tsan_acquire(grid);
    grid->run_lane(lane);
    tsan_release(grid);
  }
};

void run_on_tbb(Grid& grid, int threads, int lanes) {
  try {
    const LentArena arena = lend_arena(threads);
    tsan_release(&grid);
    arena->tasks.execute([&] { tbb::parallel_for(0, lanes, Lane{&grid}, tbb::simple_partitioner()); });
  } catch (const std::exception&) {
    // No memory for an arena, or the system gives the process no more threads (lanes throw nothing). The
    // lanes that began have ended; this thread takes the remaining blocks.
  }
  tsan_acquire(&grid);
  grid.run_lane(0);
}

}  // namespace

void run_grid(KernelFunction kernel, const Arguments& arguments, std::int64_t grid, int threads,
              void* scratch, std::int64_t scratch_bytes) {
  Grid work{kernel, arguments, grid, static_cast<std::byte*>(scratch), scratch_bytes};
  if (threads <= 1 || grid <= 1) return work.run_lane(0);
  const bool use_tbb = may_use_tbb();
  // An arena larger than what the process allows makes oneTBB print a warning, and gets no more threads.
  if (use_tbb) threads = std::min(threads, most_tbb_threads());
  const int lanes = static_cast<int>(std::min<std::int64_t>(threads, grid));
  if (lanes <= 1) {
    work.run_lane(0);
  } else if (use_tbb) {
    run_on_tbb(work, threads, lanes);
  } else {
    run_threads(lanes, [&work](int lane) { work.run_lane(lane); });
  }
}

}  // namespace regard::cpu
