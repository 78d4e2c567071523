// The path of a call to an AMD GPU, with a driver that records instead of computing. Kernels are compiled by
// clang; in tests/cli/test_hip.py and tests/python/test_rocm.py the same path leads to kernels that compute.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "gpu/call.h"
#include "kernels/backward_schedule.h"
#include "plan/target.h"

namespace regard::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr char forward[] = "fwd bf16 lse b=2 hq=4 hk=2 sq=300 sk=500 d=64 mask=causal";
constexpr char backward[] = "bwd bf16 b=2 hq=4 hk=2 sq=300 sk=500 d=64 mask=causal";

class HipGpu : public Gpu {
 protected:
  void SetUp() override {
    Gpu::SetUp();
    const Call call(forward, 0, "hip");
    if (regard_plan_prepare(call.plan) == REGARD_NO_KERNEL) GTEST_SKIP() << message();
  }
  /// HIP would report an error that is left to the caller's program.
  void TearDown() override { EXPECT_EQ(fake_last_error(), 0); }
};

TEST_F(HipGpu, TheTargetHipIsTheBestOfTheCurrentDevice) {
  EXPECT_STREQ(regard_plan_target(Call(forward, 0, "hip").plan), "gfx942");
  EXPECT_STREQ(regard_plan_target(Call(forward, 1, "hip").plan), "gfx1100");
  EXPECT_EQ(regard_plan_on_gpu(Call(forward, 1, "hip").plan), 1);
}

struct Launched {
  FakeLaunch launch;
  BackwardArguments arguments;
};
std::vector<Launched> launched;

TEST_F(HipGpu, ALaunchHasTheStreamAndTheTensors) {
  for (const auto& [device, wave] : {std::pair(0, 64U), std::pair(1, 32U)}) {
    const Call call(forward, device, "hip");
    launched.clear();
    driver.on_launch = [](const FakeLaunch& launch, void** parameters) {
      Launched one{launch, {}};
      static_cast<Arguments&>(one.arguments) = *static_cast<Arguments*>(parameters[0]);
      launched.push_back(one);
    };
    int stream = 0;
    ASSERT_EQ(call.run(&stream), REGARD_OK) << message();
    ASSERT_EQ(launched.size(), 1U);
    const auto& [launch, arguments] = launched.front();
    EXPECT_EQ(launch.stream, reinterpret_cast<gpu::Stream>(&stream));
    EXPECT_GE(launch.blocks, 2U * 4);
    EXPECT_EQ(launch.threads % wave, 0U);
    EXPECT_LE(launch.shared_bytes, 65536U);
    EXPECT_EQ(arguments.q.data, call.arguments.tensor[REGARD_Q].data);
    EXPECT_EQ(arguments.o.data, call.arguments.tensor[REGARD_O].data);
    EXPECT_EQ(arguments.sk, 500);
  }
}

TEST_F(HipGpu, BackwardPreparesComputesAndConvertsInItsWorkspace) {
  const Call call(backward, 0, "hip");
  launched.clear();
  driver.on_launch = [](const FakeLaunch& launch, void** parameters) {
    launched.push_back({launch, *static_cast<BackwardArguments*>(parameters[0])});
  };
  ASSERT_EQ(call.run(), REGARD_OK) << message();
  ASSERT_EQ(launched.size(), 3U);
  auto* const workspace = static_cast<char*>(call.workspace);
  for (const Launched& stage : launched) {
    const std::int64_t place = reinterpret_cast<char*>(stage.arguments.grad_q_sum) - workspace;
    EXPECT_TRUE(place >= 0 && place < regard_plan_workspace_bytes(call.plan)) << place;
  }
  EXPECT_EQ(launched.back().arguments.grad_q.data, call.arguments.tensor[REGARD_GRAD_Q].data);
}

TEST_F(HipGpu, TheDeviceOfTheCallerComesBack) {
  const Call call(forward, 0, "hip");
  fake_use(1);
  const int loads = driver.loads[1];
  EXPECT_EQ(call.run(), REGARD_OK) << message();  // runs on the device of its tensors
  EXPECT_EQ(driver.loads[1], loads);
  EXPECT_STREQ(regard_plan_target(Call(forward, 1, "hip").plan), "gfx1100");
}

TEST_F(HipGpu, TensorsElsewhereAreRefusedByName) {
  Call call(forward, 0, "hip");
  const int launches = driver.launches;
  void* of_nvidia = nullptr;
  ASSERT_EQ(regard_memory_allocate("cuda", 1 << 20, &of_nvidia), REGARD_OK) << message();
  void* const right = std::exchange(call.arguments.tensor[REGARD_K].data, of_nvidia);
  EXPECT_EQ(call.run(), REGARD_INVALID);
  EXPECT_THAT(message(), testing::StartsWith("k "));
  call.arguments.tensor[REGARD_K].data = right;
  EXPECT_EQ(regard_memory_free(of_nvidia), REGARD_OK);

  fake_use(1);
  void* other = nullptr;
  ASSERT_EQ(regard_memory_allocate("hip", 1 << 20, &other), REGARD_OK) << message();
  std::exchange(call.arguments.tensor[REGARD_K].data, other);
  EXPECT_EQ(call.run(), REGARD_INVALID);
  EXPECT_THAT(message(), HasSubstr("k is on GPU 1 and q on GPU 0"));
  EXPECT_EQ(regard_memory_free(other), REGARD_OK);
  EXPECT_EQ(driver.launches, launches);
}

TEST_F(HipGpu, CodeOfAnotherChipIsNotLoaded) {
  fake_use(1);
  void* memory = nullptr;
  EXPECT_EQ(regard_memory_allocate("gfx942", 64, &memory), REGARD_REFUSED);
  EXPECT_EQ(message(), "target gfx942 does not run on Fake Radeon, which is gfx1100");
  const Call call(forward, 0, "hip"), on_other(forward, 1, "hip");
  const int loads = driver.loads[1];
  EXPECT_EQ(regard_plan_run(call.plan, &on_other.arguments, on_other.workspace, 1, nullptr),
            REGARD_NO_KERNEL);
  EXPECT_THAT(message(), HasSubstr("cannot be loaded: target gfx942 does not run on Fake Radeon, which is "
                                   "gfx1100"));
  EXPECT_EQ(driver.loads[1], loads);
}

TEST_F(HipGpu, NothingIsLoadedWhileAGraphIsCaptured) {
  const Call call("fwd bf16 b=1 h=2 s=64 d=128", 0, "hip");
  driver.capturing = 1;
  EXPECT_EQ(call.run(), REGARD_REFUSED);
  EXPECT_THAT(message(), HasSubstr("regard_plan_prepare"));
  ASSERT_EQ(regard_plan_prepare(call.plan), REGARD_OK) << message();
  EXPECT_EQ(call.run(), REGARD_OK) << message();
}

TEST_F(HipGpu, AFailureOfTheDriverIsItsSentence) {
  const Call call(forward, 0, "hip");
  driver.launch_code = 2;
  EXPECT_EQ(call.run(), REGARD_NO_MEMORY);
  EXPECT_THAT(message(), HasSubstr("HIP could not launch a kernel: out of memory (hipErrorOutOfMemory)"));
  driver.launch_code = 719;
  EXPECT_EQ(call.run(), REGARD_REFUSED);
  EXPECT_THAT(message(), HasSubstr("HIP could not launch a kernel: a fake error (hipErrorFake)"));
  driver.most_bytes = 100;
  void* memory = nullptr;
  EXPECT_EQ(regard_memory_allocate("hip", 101, &memory), REGARD_NO_MEMORY);
  EXPECT_THAT(message(), AllOf(HasSubstr("Fake Instinct"), HasSubstr("101 bytes")));
}

TEST_F(HipGpu, ThePlanReportsTheKernelsResources) {
  const Call call(forward, 0, "hip");
  ASSERT_EQ(regard_plan_prepare(call.plan), REGARD_OK) << message();
  char* text = nullptr;
  ASSERT_EQ(regard_plan_json(call.plan, &text), REGARD_OK);
  EXPECT_THAT(std::string(text), AllOf(HasSubstr("\"registers\""), HasSubstr("\"matrix\"")));
  regard_string_free(text);
}

}  // namespace
}  // namespace regard::test
