// Runs the blocks of a grid over threads: one lane per thread, lanes take the next block from one counter.
//
// Threads come from oneTBB. Each call has a task arena to itself, taken from a list of idle ones: a thread
// that waits for the end of its call can then never be kept busy by blocks of somebody else's. A forked child
// gets none of its parent's threads, and the parent's scheduler may have been copied in the middle of a step;
// there each call starts plain threads and never touches oneTBB.
#include <pthread.h>
#include <tbb/global_control.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

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

std::atomic<bool> tbb_used{false};
std::atomic<bool> tbb_lost{false};  // we are a forked child of a process that had used it

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

IdleArenas& idle_arenas() {
  static IdleArenas* const arenas = [] {
    pthread_atfork(nullptr, nullptr, [] {
      if (tbb_used.load(std::memory_order_relaxed)) tbb_lost.store(true, std::memory_order_relaxed);
    });
    return new IdleArenas;  // never deleted: threads may still run when the process exits
  }();
  return *arenas;
}

int most_tbb_threads() {
  return static_cast<int>(tbb::global_control::active_value(tbb::global_control::max_allowed_parallelism));
}

void run_on_tbb(Grid& grid, int threads, int lanes) {
  IdleArenas& arenas = idle_arenas();
  tbb_used.store(true, std::memory_order_relaxed);
  std::unique_ptr<tbb::task_arena> arena = arenas.take(threads);
  arena->execute([&] {
    tbb::parallel_for(0, lanes, [&](int lane) { grid.run_lane(lane); }, tbb::simple_partitioner());
  });
  arenas.put_back(threads, std::move(arena));
}

void run_on_new_threads(Grid& grid, int lanes) {
  std::vector<std::thread> helpers;
  helpers.reserve(static_cast<std::size_t>(lanes) - 1);
  try {
    for (int lane = 1; lane < lanes; ++lane) helpers.emplace_back([&grid, lane] { grid.run_lane(lane); });
  } catch (const std::system_error&) {  // no more threads to be had: those that we have do the work
  }
  grid.run_lane(0);
  for (std::thread& helper : helpers) helper.join();
}

}  // namespace

void run_grid(KernelFunction kernel, const Arguments& arguments, std::int64_t grid, int threads,
              void* scratch, std::int64_t scratch_bytes) {
  Grid work{kernel, arguments, grid, static_cast<std::byte*>(scratch), scratch_bytes};
  if (threads <= 1 || grid <= 1) return work.run_lane(0);
  const bool use_tbb = !tbb_lost.load(std::memory_order_relaxed);
  // An arena larger than what the process allows makes oneTBB print a warning, and gets no more threads.
  if (use_tbb) threads = std::min(threads, most_tbb_threads());
  const int lanes = static_cast<int>(std::min<std::int64_t>(threads, grid));
  if (lanes <= 1) {
    work.run_lane(0);
  } else if (use_tbb) {
    run_on_tbb(work, threads, lanes);
  } else {
    run_on_new_threads(work, lanes);
  }
}

}  // namespace regard::cpu
