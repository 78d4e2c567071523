// The counters from which kernels take work are cleared as rarely as possible, and never shared by kernels
// that can run at the same time.
#include <gmock/gmock.h>

#include <cstring>
#include <mutex>
#include <set>
#include <thread>

#include "gpu/call.h"
#include "kernels/arguments.h"

namespace regard::test {
namespace {

u32* counter = nullptr;  // of the last launch

class Counters : public Gpu {
 protected:
  void SetUp() override {
    Gpu::SetUp();
    driver.on_launch = [](const FakeLaunch&, void** parameters) {
      counter = static_cast<Arguments*>(parameters[4])->counter;
    };
  }

  /// The counter of a run in the stream with that number; expects it to be 0.
  static u32* counter_of_run(const Call& call, std::uintptr_t stream) {
    EXPECT_EQ(call.run(reinterpret_cast<void*>(stream)), REGARD_OK) << message();
    EXPECT_EQ(*counter, 0U);
    return counter;
  }
  static bool in_workspace(const Call& call, const u32* address) {
    const auto* start = static_cast<const char*>(call.workspace);
    const auto* byte = reinterpret_cast<const char*>(address);
    return byte >= start && byte < start + regard_plan_workspace_bytes(call.plan);
  }
  /// Fills the workspace with garbage, which a caller's workspace may contain.
  static void spoil(const Call& call) {
    std::memset(call.workspace, 7, regard_plan_workspace_bytes(call.plan));
  }
};

TEST_F(Counters, AStreamHasItsOwnClearedOnce) {
  const Call call(plain);
  u32* const first = counter_of_run(call, 100);
  EXPECT_FALSE(in_workspace(call, first));
  const int fills = driver.fills;
  EXPECT_EQ(counter_of_run(call, 100), first);
  EXPECT_EQ(driver.fills, fills);
  u32* const second = counter_of_run(call, 101);
  EXPECT_GE(std::abs(second - first), 32);  // 128 bytes
  EXPECT_EQ(driver.fills, fills + 1);
  counter_of_run(call, 100), counter_of_run(call, 101);
  EXPECT_EQ(driver.fills, fills + 1);
}

TEST_F(Counters, AGraphClearsTheOneInItsWorkspace) {
  const Call call(plain);
  counter_of_run(call, 200);
  driver.capturing = 1;
  for (int i = 0; i < 2; ++i) {
    spoil(call);
    const int fills = driver.fills;
    EXPECT_TRUE(in_workspace(call, counter_of_run(call, 200)));
    EXPECT_EQ(driver.fills, fills + 1);
  }
}

TEST_F(Counters, WithoutNumbersOfStreamsTheWorkspaceServes) {
  const Call call(plain);
  ASSERT_EQ(regard_plan_prepare(call.plan), REGARD_OK) << message();
  driver.number_code = 1;
  spoil(call);
  EXPECT_TRUE(in_workspace(call, counter_of_run(call, 300)));
}

TEST_F(Counters, WhatCannotBeClearedIsAnErrorAndClearedTheNextTime) {
  const Call call(plain);
  ASSERT_EQ(regard_plan_prepare(call.plan), REGARD_OK) << message();
  driver.fill_code = cuda::out_of_memory;
  EXPECT_EQ(call.run(reinterpret_cast<void*>(400)), REGARD_NO_MEMORY);
  EXPECT_THAT(message(), testing::HasSubstr("clear memory"));
  driver.fill_code = cuda::success;
  EXPECT_FALSE(in_workspace(call, counter_of_run(call, 400)));
}

TEST_F(Counters, DevicesHaveTheirOwn) {
  // Only Hopper's kernel has a counter. The other device is made to run it too: nothing is computed.
  const Call here(plain, 0, "sm_90a"), there(plain, 1, "sm_90a");
  u32* const first = counter_of_run(here, 500);
  EXPECT_NE(counter_of_run(there, 500), first);
  EXPECT_EQ(counter_of_run(here, 500), first);
}

TEST_F(Counters, ThreadsThatShareAStreamShareItsCounter) {
  const Call call(plain);
  ASSERT_EQ(regard_plan_prepare(call.plan), REGARD_OK) << message();
  static std::mutex mutex;
  static std::set<u32*> seen[4];
  for (auto& set : seen) set.clear();
  driver.on_launch = [](const FakeLaunch& launch, void** parameters) {
    const std::lock_guard lock(mutex);
    seen[reinterpret_cast<std::uintptr_t>(launch.stream) - 600].insert(
        static_cast<Arguments*>(parameters[4])->counter);
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      for (std::uintptr_t n = 0; n < 200; ++n)
        EXPECT_EQ(call.run(reinterpret_cast<void*>(600 + n % 4)), REGARD_OK) << message();
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::set<u32*> own;
  for (auto& set : seen) {
    // A run uses the workspace's counter while another thread still clears the stream's.
    std::erase_if(set, [&](u32* one) { return in_workspace(call, one); });
    EXPECT_EQ(set.size(), 1U);
    own.merge(set);
  }
  EXPECT_EQ(own.size(), 4U);
}

TEST_F(Counters, ThousandsOfStreamsStillHaveOneEach) {
  const Call call(plain);
  std::set<u32*> own;
  int of_workspace = 0;
  constexpr int streams = 3000;
  for (std::uintptr_t stream = 10'000; stream < 10'000 + streams; ++stream) {
    spoil(call);
    u32* const one = counter_of_run(call, stream);
    if (in_workspace(call, one))
      ++of_workspace;
    else
      EXPECT_TRUE(own.insert(one).second) << "stream " << stream;
  }
  EXPECT_GE(own.size(), 900U);
  EXPECT_EQ(own.size() + static_cast<std::size_t>(of_workspace), static_cast<std::size_t>(streams));
  // The first streams keep their counters.
  const int fills = driver.fills;
  EXPECT_FALSE(in_workspace(call, counter_of_run(call, 10'000)));
  EXPECT_EQ(driver.fills, fills);
}

}  // namespace
}  // namespace regard::test
