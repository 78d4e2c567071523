// Two calls that use one workspace at the same time are detected in debug builds and under REGARD_VERIFY.
#include "engine/workspace_use.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "engine/memory.h"
#include "regard/regard.h"

namespace regard {
namespace {

/// Settings are read once per process, so a test that needs one runs in a child.
void expect_in_child(void (*body)()) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";  // starts a new program instead of forking this one
  EXPECT_EXIT(
      {
        setenv("REGARD_VERIFY", "generic", 1);
        body();
        std::exit(testing::Test::HasFailure() ? 1 : 0);
      },
      testing::ExitedWithCode(0), "");
}

bool is_free(const char* memory, std::int64_t bytes) {
  const WorkspaceUse use(memory, bytes);
  if (!use.status()) {
    EXPECT_THAT(use.status().error().message, testing::HasSubstr("a workspace each"));
  }
  return use.status().has_value();
}

void expect_overlaps_to_be_noticed() {
  static const char memory[1000] = {};
  {
    const WorkspaceUse one(memory + 100, 100), other(memory + 500, 100);
    EXPECT_TRUE(one.status() && other.status());
    for (const auto& [first, bytes] :
         {std::pair{100, 100}, {0, 101}, {199, 1}, {150, 10}, {0, 1000}, {550, 400}})
      EXPECT_FALSE(is_free(memory + first, bytes)) << first;
    for (const auto& [first, bytes] : {std::pair{0, 100}, {200, 300}, {600, 400}, {150, 0}})
      EXPECT_TRUE(is_free(memory + first, bytes)) << first;
  }
  EXPECT_TRUE(is_free(memory, 1000));
}

TEST(WorkspaceUse, OverlapsAreNoticed) {
  expect_in_child(expect_overlaps_to_be_noticed);
}

/// A problem with its tensors; each thread has one.
struct Call {
  static constexpr const char* text = "fwd fp32 b=1 h=4 s=256 d=64";
  Call() {
    EXPECT_EQ(regard_problem_parse(text, &problem), REGARD_OK) << regard_status_message();
    regard_plan_options options = REGARD_PLAN_OPTIONS_INIT;
    options.threads = 1;
    EXPECT_EQ(regard_plan_create(problem, &options, &plan), REGARD_OK) << regard_status_message();
    for (const regard_role role : {REGARD_Q, REGARD_K, REGARD_V, REGARD_O}) {
      EXPECT_EQ(regard_problem_tensor(problem, role, nullptr, &arguments.tensor[role]), REGARD_OK);
      arguments.tensor[role].data = memory.emplace_back(4 * 256 * 64).data();
    }
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;
  ~Call() {
    regard_plan_destroy(plan);
    regard_problem_destroy(problem);
  }
  regard_status run(void* workspace) const {
    return regard_plan_run(plan, &arguments, workspace, regard_plan_workspace_bytes(plan), nullptr);
  }
  regard_problem* problem = nullptr;
  regard_plan* plan = nullptr;
  regard_arguments arguments = REGARD_ARGUMENTS_INIT;
  std::vector<std::vector<float>> memory;
};

void expect_sharing_to_be_refused() {
  const Call first;
  const AlignedMemory shared = *aligned_memory(regard_plan_workspace_bytes(first.plan));
  std::atomic<bool> refused = false;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  const auto run = [&] {
    const Call call;
    while (!refused && std::chrono::steady_clock::now() < end) {
      if (call.run(shared.get()) == REGARD_OK) continue;
      EXPECT_THAT(regard_status_message(), testing::HasSubstr("workspace is in use"));
      refused = true;
    }
  };
  std::thread one(run), other(run);
  one.join();
  other.join();
  EXPECT_TRUE(refused);
  EXPECT_EQ(first.run(shared.get()), REGARD_OK) << regard_status_message();
}

TEST(WorkspaceUse, CallsThatShareOneAreRefused) {
  expect_in_child(expect_sharing_to_be_refused);
}

}  // namespace
}  // namespace regard
