#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>
#include <algorithm>
#include <atomic>
#include <cfenv>
#include <chrono>
#include <numeric>
#include <set>
#include <thread>
#include <vector>

#include "device/cpu/cpu.h"
#include "kernels/arguments.h"

namespace regard::cpu {
namespace {

using std::chrono::milliseconds;

// The tests' kernel counts in the array that `grad_sink` points to, with one counter per block.
Arguments counting(std::vector<float>& counters) {
  Arguments arguments{};
  arguments.grad_sink = counters.data();
  return arguments;
}
void count_block(const Arguments* arguments, long long block, void*) {
  arguments->grad_sink[block] += 1;
}

// Another kernel records the floating-point mode that it runs in; 0 is the default.
void note_mode(const Arguments* arguments, long long block, void*) {
  volatile float third = 3;
  third = 1 / third;
  arguments->grad_sink[block] = third == 1.0f / 3 ? 0 : 1;
}

bool each_once(const std::vector<float>& counters) {
  return std::ranges::all_of(counters, [](float count) { return count == 1; });
}

// The child's exit status, or -1 if it had to be killed after ten seconds.
template <class Body>
int in_forked_child(Body body) {
  const pid_t child = fork();
  if (child == 0) _exit(body());
  for (int i = 0; i < 1000; ++i) {
    int status = 0;
    if (waitpid(child, &status, WNOHANG) == child) return WIFEXITED(status) ? WEXITSTATUS(status) : -2;
    std::this_thread::sleep_for(milliseconds(10));
  }
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  return -1;
}

TEST(RunGrid, RunsEachBlockOnce) {
  for (int threads : {1, 2, 3, 8, 64}) {
    for (std::int64_t grid : {0, 1, 2, 7, 64, 1000}) {
      std::vector<float> counters(static_cast<std::size_t>(grid));
      run_grid(count_block, counting(counters), grid, threads, nullptr, 0);
      EXPECT_TRUE(each_once(counters)) << "threads " << threads << ", grid " << grid;
    }
  }
}

// The modes that blocks see whose caller rounds upwards.
std::vector<float> modes_seen(int threads) {
  std::vector<float> modes(64, 2);
  std::fesetround(FE_UPWARD);
  run_grid(note_mode, counting(modes), std::ssize(modes), threads, nullptr, 0);
  const int after = std::fegetround();
  std::fesetround(FE_TONEAREST);
  EXPECT_EQ(after, FE_UPWARD);
  return modes;
}
const std::vector<float> default_modes(64, 0);

TEST(RunGrid, FloatingPointModeOfTheCallerIsNotThatOfKernels) {
  for (const int threads : {1, 2, 8}) EXPECT_EQ(modes_seen(threads), default_modes) << threads;
}

TEST(RunGrid, FloatingPointModeInAForkedChildIsNotThatOfKernels) {
  EXPECT_EQ(modes_seen(2), default_modes);  // so that the parent has threads
  EXPECT_EQ(in_forked_child([] { return modes_seen(2) == default_modes ? 0 : 1; }), 0);
}

TEST(RunGrid, OneThreadRunsInOrderInTheCaller) {
  static std::vector<long long> order;
  static std::set<std::thread::id> threads;
  order.clear();
  run_grid(
      [](const Arguments*, long long block, void*) {
        order.push_back(block);
        threads.insert(std::this_thread::get_id());
      },
      Arguments{}, 5, 1, nullptr, 0);
  EXPECT_EQ(order, (std::vector<long long>{0, 1, 2, 3, 4}));
  EXPECT_EQ(threads, std::set{std::this_thread::get_id()});
}

TEST(RunGrid, BlocksAreTakenInOrder) {
  static std::atomic<long long> started{0};
  static std::atomic<bool> early{false};
  started = 0;
  early = false;
  // With four lanes a block can start before at most three of the blocks in front of it.
  run_grid(
      [](const Arguments*, long long block, void*) {
        const long long before = started.fetch_add(1);
        if (block > before + 3) early = true;
        std::this_thread::yield();
      },
      Arguments{}, 500, 4, nullptr, 0);
  EXPECT_EQ(started, 500);
  EXPECT_FALSE(early);
}

TEST(RunGrid, NoTwoRunningBlocksShareScratch) {
  constexpr int threads = 4;
  struct alignas(64) Scratch {
    std::atomic<int> users;
  };
  static std::atomic<bool> shared{false};
  std::vector<Scratch> scratch(threads);
  run_grid(
      [](const Arguments*, long long, void* own) {
        auto& users = static_cast<Scratch*>(own)->users;
        if (users.fetch_add(1) != 0) shared = true;
        std::this_thread::sleep_for(std::chrono::microseconds(50));
        users.fetch_sub(1);
      },
      Arguments{}, 200, threads, scratch.data(), sizeof(Scratch));
  EXPECT_FALSE(shared);
}

TEST(RunGrid, UsesSeveralThreads) {
  static std::atomic<int> running, most;
  running = most = 0;
  run_grid(
      [](const Arguments*, long long, void*) {
        const int now = ++running;
        for (int seen = most; now > seen && !most.compare_exchange_weak(seen, now);) {
        }
        std::this_thread::sleep_for(milliseconds(5));
        --running;
      },
      Arguments{}, 40, 2, nullptr, 0);
  if (usable_cores() < 2) GTEST_SKIP() << "one core";
  EXPECT_EQ(most, 2);
}

void nested(const Arguments* arguments, long long block, void*) {
  Arguments inner = *arguments;
  inner.grad_sink += block * 16;
  run_grid(count_block, inner, 16, 3, nullptr, 0);
}

TEST(RunGrid, NestedCallsWork) {
  std::vector<float> counters(16 * 16);
  run_grid(nested, counting(counters), 16, 3, nullptr, 0);
  EXPECT_TRUE(each_once(counters));
}

TEST(RunGrid, ManyThreadsCanCallAtOnce) {
  std::atomic<int> right{0};
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 8; ++caller) {
    callers.emplace_back([&] {
      for (int round = 0; round < 50; ++round) {
        std::vector<float> counters(100);
        run_grid(count_block, counting(counters), 100, 2 + round % 3, nullptr, 0);
        right += each_once(counters);
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(right, 8 * 50);
}

// A quick call must not wait for the blocks of a slow one that runs at the same time.
TEST(RunGrid, AQuickCallDoesNotWorkForASlowOne) {
  static std::atomic<bool> release{false}, slow_started{false};
  release = slow_started = false;
  std::atomic<bool> slow_ended{false};
  std::thread slow([&] {
    run_grid(
        [](const Arguments*, long long, void*) {
          slow_started = true;
          for (int i = 0; i < 3000 && !release; ++i) std::this_thread::sleep_for(milliseconds(10));
        },
        Arguments{}, 2, 2, nullptr, 0);
    slow_ended = true;
  });
  while (!slow_started) std::this_thread::yield();
  std::vector<float> counters(64);
  run_grid(count_block, counting(counters), 64, 2, nullptr, 0);
  EXPECT_FALSE(slow_ended);
  release = true;
  slow.join();
  EXPECT_TRUE(each_once(counters));
}

TEST(RunGrid, WorksInAForkedChildAfterTheParentUsedIt) {
  std::vector<float> counters(100);
  run_grid(count_block, counting(counters), 100, 4, nullptr, 0);
  ASSERT_TRUE(each_once(counters));
  EXPECT_EQ(in_forked_child([] {
              std::vector<float> own(256);
              run_grid(nested, counting(own), 16, 4, nullptr, 0);
              if (!each_once(own)) return 1;
              return in_forked_child([] {  // and in the child's child
                std::vector<float> grandchild(64);
                run_grid(count_block, counting(grandchild), 64, 2, nullptr, 0);
                return each_once(grandchild) ? 0 : 2;
              });
            }),
            0);
  std::ranges::fill(counters, 0.f);
  run_grid(count_block, counting(counters), 100, 4, nullptr, 0);
  EXPECT_TRUE(each_once(counters)) << "the parent still works";
}

TEST(RunGrid, AChildForkedWhileOtherThreadsComputeCanCompute) {
#if defined(__SANITIZE_ADDRESS__) && !defined(__clang__)
  // gdb showed that the hung child waits for a lock of the sanitizer's own allocator, which another thread
  // held at the fork. glibc's allocator and clang 19's sanitizer acquire their locks around a fork.
  GTEST_SKIP() << "g++'s address sanitizer does not survive a fork while other threads allocate";
#endif
  std::atomic<bool> stop{false};
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 3; ++caller) {
    callers.emplace_back([&] {
      std::vector<float> counters(64);
      while (!stop) run_grid(count_block, counting(counters), 64, 2, nullptr, 0);
    });
  }
  for (int round = 0; round < 20; ++round) {
    EXPECT_EQ(in_forked_child([] {
                std::vector<float> own(64);
                run_grid(count_block, counting(own), 64, 2, nullptr, 0);
                return each_once(own) ? 0 : 1;
              }),
              0);
  }
  stop = true;
  for (std::thread& caller : callers) caller.join();
}

}  // namespace
}  // namespace regard::cpu
