// The path of a backward call to a GPU, with a driver that records instead of computing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "gpu/call.h"
#include "kernels/backward_schedule.h"
#include "support/counted.h"

namespace regard::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr char hopper[] = "bwd bf16 b=2 hq=4 hk=2 sq=300 sk=500 d=64 mask=causal";

struct Launched {
  FakeLaunch launch;
  BackwardArguments arguments;
};
std::vector<Launched> launched;

/// Records a launch. The main stage's parameters begin with the maps of Q, K, V and dO.
void see(const FakeLaunch& launch, void** parameters) {
  const bool is_main = launched.size() == 1;
  launched.push_back({launch, *static_cast<BackwardArguments*>(parameters[is_main ? 4 : 0])});
}

TEST_F(Gpu, BackwardPreparesComputesAndConvertsInItsWorkspace) {
  const Call call(hopper, 0, "cuda", "sm90_backward");
  launched.clear();
  driver.on_launch = see;
  int stream = 0;
  ASSERT_EQ(call.run(&stream), REGARD_OK) << message();
  ASSERT_EQ(launched.size(), 3U);
  auto* const workspace = static_cast<char*>(call.workspace);
  const std::int64_t bytes = regard_plan_workspace_bytes(call.plan);
  for (const Launched& stage : launched) {
    EXPECT_EQ(stage.launch.stream, reinterpret_cast<cuda::Stream>(&stream));
    EXPECT_GE(stage.launch.blocks, 1U);
    const GpuBackwardSchedule& s = stage.arguments;
    for (const void* part : {static_cast<void*>(s.delta), static_cast<void*>(s.lse_log2), s.zeroed,
                             static_cast<void*>(s.grad_q_sum)}) {
      const std::int64_t place = static_cast<const char*>(part) - workspace;
      EXPECT_TRUE(place >= 0 && place < bytes && place % 16 == 0) << place;
    }
    EXPECT_LE(static_cast<char*>(s.zeroed) - workspace + 16 * s.zeroed_vectors, bytes);
    EXPECT_EQ(s.grad_q_sum, launched.front().arguments.grad_q_sum);
  }
  const Arguments& a = launched.back().arguments;
  EXPECT_EQ(a.grad_q.data, call.arguments.tensor[REGARD_GRAD_Q].data);
  EXPECT_EQ(a.grad_v.data, call.arguments.tensor[REGARD_GRAD_V].data);
}

// Without rows, dK and dV are zero, and so is the gradient of a sink, even without keys.
TEST_F(Gpu, BackwardWithoutRowsIsStillComputed) {
  for (const char* text : {"bwd bf16 b=2 h=2 sq=0 sk=70 d=64", "bwd bf16 b=2 h=2 sq=0 sk=0 d=64 sink"}) {
    Call call(text);
    regard_tensor& q = call.arguments.tensor[REGARD_Q];
    for (void* memory : {q.data, static_cast<void*>(nullptr)}) {
      q.data = memory;
      for (const bool own_workspace : {true, false}) {
        const int before = driver.launches;
        regard_plan_options options = REGARD_PLAN_OPTIONS_INIT;
        options.target = "cuda";
        EXPECT_EQ(own_workspace ? regard_attention(call.problem, &options, &call.arguments) : call.run(),
                  REGARD_OK)
            << text << ": " << message();
        EXPECT_GT(driver.launches, before) << text;
      }
    }
  }
  const Call nothing("bwd bf16 b=2 h=2 sq=0 sk=0 d=64");
  const int before = driver.launches;
  EXPECT_EQ(nothing.run(), REGARD_OK) << message();
  EXPECT_EQ(driver.launches, before);
}

TEST_F(Gpu, GradientsThatAreSummedOverNoSequencesAreCleared) {
  const Call call("bwd bf16 b=0 h=2 s=64 d=64 sink");
  auto* const sink = static_cast<float*>(call.arguments.tensor[REGARD_GRAD_SINK].data);
  std::memset(sink, 0xff, 3 * sizeof *sink);
  const int before = driver.launches;
  EXPECT_EQ(call.run(), REGARD_OK) << message();
  EXPECT_EQ(driver.launches, before);
  EXPECT_TRUE(sink[0] == 0 && sink[1] == 0 && sink[2] != 0);
}

TEST_F(Gpu, ABiasWithoutSequencesHasAGradientOfZeros) {
  const Call call("bwd bf16 b=0 h=2 sq=5 sk=7 d=64 bias=1h dbias");
  regard_tensor tensor = call.arguments.tensor[REGARD_GRAD_BIAS];
  auto* const bias = static_cast<std::uint16_t*>(tensor.data);
  for (const std::int64_t row : {7, 9}) {  // contiguous, and with gaps
    std::fill_n(bias, 2 * 5 * row + 1, std::uint16_t{0xffff});
    regard_arguments arguments = call.arguments;
    arguments.tensor[REGARD_GRAD_BIAS].strides[2] = row;
    arguments.tensor[REGARD_GRAD_BIAS].strides[1] = 5 * row;
    EXPECT_EQ(regard_plan_run(call.plan, &arguments, call.workspace, regard_plan_workspace_bytes(call.plan),
                              nullptr),
              REGARD_OK)
        << message();
    for (std::int64_t i = 0; i <= 2 * 5 * row; ++i) {
      const bool is_element = i < 2 * 5 * row && i % row < 7;
      ASSERT_EQ(bias[i], is_element ? 0 : 0xffff) << row << " " << i;
    }
  }
}

TEST_F(Gpu, BackwardOfTensorsThatHopperCannotReachIsPortable) {
  Call call(hopper);
  launched.clear();
  driver.on_launch = [](const FakeLaunch& launch, void**) { launched.push_back({launch, {}}); };
  regard_tensor& grad_o = call.arguments.tensor[REGARD_GRAD_O];
  grad_o.data = static_cast<char*>(grad_o.data) + 2;
  ASSERT_EQ(call.run(), REGARD_OK) << message();
  ASSERT_EQ(launched.size(), 3U);
  EXPECT_EQ(launched[1].launch.threads % 384, 256U);  // eight warps, not three warpgroups
  Call only(hopper, 0, "cuda", "sm90_backward");
  only.arguments.tensor[REGARD_GRAD_K].data =
      static_cast<char*>(only.arguments.tensor[REGARD_GRAD_K].data) + 2;
  EXPECT_EQ(only.run(), REGARD_REFUSED);
  EXPECT_THAT(message(), AllOf(HasSubstr("grad_k does not start at a multiple of 16 bytes"),
                               HasSubstr("family=portable_backward")));
}

TEST_F(Gpu, NoStageIsLaunchedWhereOneIsNotLoadedInACapture) {
  const Call call("bwd bf16 b=1 h=2 s=64 d=96");
  const int before = driver.launches;
  driver.capturing = 1;
  EXPECT_EQ(call.run(), REGARD_REFUSED);
  EXPECT_THAT(message(), HasSubstr("regard_plan_prepare"));
  EXPECT_EQ(driver.launches, before);
  ASSERT_EQ(regard_plan_prepare(call.plan), REGARD_OK) << message();
  EXPECT_EQ(call.run(), REGARD_OK) << message();
  EXPECT_EQ(driver.launches, before + 3);
}

TEST_F(Gpu, GradientsElsewhereAreRefusedByName) {
  Call call(hopper);
  fake_use(1);
  void* other = nullptr;
  ASSERT_EQ(regard_memory_allocate("cuda", 1 << 20, &other), REGARD_OK) << message();
  const int before = driver.launches;
  for (const regard_role role : {REGARD_GRAD_Q, REGARD_GRAD_V, REGARD_GRAD_O, REGARD_LSE}) {
    void* const right = std::exchange(call.arguments.tensor[role].data, other);
    EXPECT_EQ(call.run(), REGARD_INVALID);
    EXPECT_THAT(message(),
                AllOf(testing::StartsWith(regard_role_name(role)), HasSubstr("is on GPU 1 and q on GPU 0")));
    call.arguments.tensor[role].data = right;
  }
  EXPECT_EQ(driver.launches, before);
  EXPECT_EQ(regard_memory_free(other), REGARD_OK);
}

TEST_F(Gpu, GradientsMayNotBeInputsNorEachOther) {
  Call call("bwd bf16 b=2 h=2 s=300 d=64");
  auto& tensor = call.arguments.tensor;
  void* const right = std::exchange(tensor[REGARD_GRAD_Q].data, tensor[REGARD_GRAD_O].data);
  EXPECT_EQ(call.run(), REGARD_INVALID);
  tensor[REGARD_GRAD_Q].data = tensor[REGARD_GRAD_K].data;
  EXPECT_EQ(call.run(), REGARD_INVALID);
  tensor[REGARD_GRAD_Q].data = call.workspace;
  EXPECT_EQ(call.run(), REGARD_INVALID);
  tensor[REGARD_GRAD_Q].data = right;
  EXPECT_EQ(call.run(), REGARD_OK) << message();
}

TEST_F(Gpu, ARepeatedBackwardCallAsksForNoMemoryAndNoMaps) {
  const Call call(hopper);
  EXPECT_EQ(call.run(), REGARD_OK) << message();
  const int encoded = driver.encoded;
  regard_status status = REGARD_OK;
  const Counted asked = counted([&] { status = call.run(); });
  EXPECT_EQ(status, REGARD_OK) << message();
  EXPECT_EQ(driver.encoded, encoded);
  if (!counts) GTEST_SKIP() << "a sanitizer has malloc";
  EXPECT_EQ(asked.allocations, 0);
}

}  // namespace
}  // namespace regard::test
