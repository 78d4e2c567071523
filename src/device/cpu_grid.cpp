// Runs the blocks of a grid over threads: one lane per thread, lanes take the next block from one counter.
//
// Threads come from oneTBB. Each call has a task arena to itself, taken from a list of idle ones: a thread
// that waits for the end of its call can then never be kept busy by blocks of somebody else's. A forked child
// gets none of its parent's threads, and the parent's scheduler may have been copied in the middle of a step;
// there each call starts plain threads and never touches oneTBB.
#include <tbb/global_control.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "base/fork_local.h"
#include "base/handed_over.h"
#include "base/lanes.h"
#include "device/cpu.h"

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
    void* const own = scratch + lane * scratch_bytes;
    for (std::int64_t block; (block = next.fetch_add(1, std::memory_order_relaxed)) < blocks;) {
      kernel(&arguments, block, own);
    }
  }
};

// Which process works with oneTBB: the number of forks before it, plus one. Claimed before the first call
// into oneTBB, so that a child forked during that call knows that its copy is not to be touched.
std::atomic<unsigned> tbb_owner{0};

bool may_use_tbb() {
  const unsigned self = fork_count() + 1;
  unsigned owner = tbb_owner.load(std::memory_order_relaxed);
  if (owner == 0) tbb_owner.compare_exchange_strong(owner, self, std::memory_order_relaxed);
  return owner == 0 || owner == self;
}

class IdleArenas {
 public:
  std::unique_ptr<tbb::task_arena> take(int threads) {
    const std::lock_guard lock(mutex_);
    List& idle = idle_[threads];
    if (idle.empty()) return std::make_unique<tbb::task_arena>(threads);
    std::unique_ptr<tbb::task_arena> arena = std::move(idle.back());
    idle.pop_back();
    return arena;
  }
  void put_back(int threads, std::unique_ptr<tbb::task_arena> arena) {
    const std::lock_guard lock(mutex_);
    idle_[threads].push_back(std::move(arena));
  }

 private:
  using List = std::vector<std::unique_ptr<tbb::task_arena>>;
  std::mutex mutex_;
  std::map<int, List> idle_;
};

// Never deleted: threads may still run when the process exits.
IdleArenas& idle_arenas = *new IdleArenas;

int most_tbb_threads() {
  return static_cast<int>(tbb::global_control::active_value(tbb::global_control::max_allowed_parallelism));
}

/// One lane as oneTBB calls it.
struct Lane {
  Grid* grid;

  REGARD_HANDED_OVER void operator()(int lane) const {
    take_over(grid);
    grid->run_lane(lane);
    hand_over(grid);
  }
};

void run_on_tbb(Grid& grid, int threads, int lanes) {
  std::unique_ptr<tbb::task_arena> arena = idle_arenas.take(threads);
  hand_over(&grid);
  arena->execute([&] { tbb::parallel_for(0, lanes, Lane{&grid}, tbb::simple_partitioner()); });
  take_over(&grid);
  idle_arenas.put_back(threads, std::move(arena));
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
    run_lanes(lanes, [&work](int lane) { work.run_lane(lane); });
  }
}

}  // namespace regard::cpu
