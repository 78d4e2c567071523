// A problem seen before is planned and run without asking for memory.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <vector>

#include "engine/counting_new.h"
#include "regard/regard.h"

namespace {

class Allocation : public testing::TestWithParam<int> {};

TEST_P(Allocation, NoneForAProblemSeenBefore) {
  regard_problem* problem = nullptr;
  ASSERT_EQ(regard_problem_parse("fwd fp32 b=1 h=2 s=70 d=16 mask=causal", &problem), REGARD_OK);
  regard_plan_options options = REGARD_PLAN_OPTIONS_INIT;
  options.family = "generic";  // built into the library
  options.threads = GetParam();
  std::vector<float> numbers(std::size_t{70} * 2 * 16);
  std::vector<float> output(numbers.size());
  regard_arguments arguments = REGARD_ARGUMENTS_INIT;
  for (const regard_role role : {REGARD_Q, REGARD_K, REGARD_V, REGARD_O}) {
    arguments.tensor[role] = {
        role == REGARD_O ? output.data() : numbers.data(), REGARD_FP32, 4, {1, 70, 2, 16}, {2240, 32, 16, 1}};
  }
  void* workspace = nullptr;
  std::int64_t bytes = 0;
  const auto call = [&] {
    regard_plan* plan = nullptr;
    if (regard_plan_create(problem, &options, &plan) != REGARD_OK) return REGARD_INTERNAL;
    if (workspace == nullptr) {
      bytes = regard_plan_workspace_bytes(plan);
      workspace = std::aligned_alloc(64, static_cast<std::size_t>(bytes + 64) / 64 * 64);
    }
    const regard_status status = regard_plan_run(plan, &arguments, workspace, bytes, nullptr);
    regard_plan_destroy(plan);
    return status;
  };
  ASSERT_EQ(call(), REGARD_OK) << regard_status_message();
  ASSERT_EQ(call(), REGARD_OK);

  allocations = 0;
  counting = true;
  const regard_status status = call();
  counting = false;
  EXPECT_EQ(status, REGARD_OK);
  EXPECT_EQ(allocations, 0);
  std::free(workspace);
  regard_problem_destroy(problem);
}
INSTANTIATE_TEST_SUITE_P(Threads, Allocation, testing::Values(1, 2));

}  // namespace
