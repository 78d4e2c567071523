// A problem seen before is planned and run without allocating memory or taking a lock.
#include <gtest/gtest.h>

#include <cstdint>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include "regard/regard.h"
#include "support/case.h"
#include "support/counted.h"

namespace regard::test {
namespace {

class SeenBefore : public testing::TestWithParam<std::tuple<const char*, int>> {};

TEST_P(SeenBefore, AsksForNoMemoryAndNoLock) {
  if (!counts) GTEST_SKIP() << "a sanitizer has malloc and the locks";
  const auto& [text, threads] = GetParam();
  Case c(text);
  regard_problem* problem = nullptr;
  ASSERT_EQ(regard_problem_parse(text, &problem), REGARD_OK) << regard_status_message();
  regard_plan_options options = REGARD_PLAN_OPTIONS_INIT;
  options.threads = threads;
  std::vector<std::uint8_t> workspace;
  regard_status status = REGARD_OK;
  const auto call = [&] {
    regard_plan* plan = nullptr;
    status = regard_plan_create(problem, &options, &plan);
    if (status != REGARD_OK) return;
    const std::int64_t bytes = regard_plan_workspace_bytes(plan);
    if (workspace.empty()) workspace.resize(static_cast<std::size_t>(bytes) + 64);
    std::uint8_t* aligned = workspace.data() + (64 - reinterpret_cast<std::uintptr_t>(workspace.data()) % 64);
    status = regard_plan_run(plan, &c.arguments(), aligned, bytes, nullptr);
    regard_plan_destroy(plan);
  };
  for (int i = 0; i < 2; ++i) {
    call();
    ASSERT_EQ(status, REGARD_OK) << regard_status_message();
  }
  const Counted asked = counted(call);
  EXPECT_EQ(status, REGARD_OK);
  EXPECT_EQ(asked.allocations, 0);
  EXPECT_EQ(asked.locks, 0);
  regard_problem_destroy(problem);
}
INSTANTIATE_TEST_SUITE_P(
    Problems, SeenBefore,
    testing::Combine(testing::Values("fwd fp32 h=2 s=70 d=16 mask=causal",        //
                                     "fwd bf16 lse h=2 s=200 d=128 mask=causal",  //
                                     "fwd bf16 hq=8 hk=2 sq=1 sk=3000 d=128",     // decode
                                     "fwd bf16 hq=2 hk=2 sq=1 sk=9000 d=128",     // in parts, merged
                                     "bwd bf16 h=2 s=200 d=64 mask=causal",       //
                                     "fwd bf16 b=3 h=2 s=100 tq=200 tk=200 d=128 varlen",
                                     "fwd fp8 h=2 s=70 d=64"),
                     testing::Values(1, 2)));

// The tests above rely on these counts.
TEST(Counted, CountsMemoryAndLocks) {
  if (!counts) GTEST_SKIP() << "a sanitizer has malloc and the locks";
  const Counted asked = counted([] {
    static std::mutex mutex;
    const std::lock_guard lock(mutex);
    std::string long_enough_for_memory(100, 'x');
    EXPECT_EQ(long_enough_for_memory.size(), 100U);
  });
  EXPECT_EQ(asked.allocations, 1);
  EXPECT_EQ(asked.locks, 1);
}

}  // namespace
}  // namespace regard::test
