// The path to a GPU, with a driver that records instead of computing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "gpu/call.h"
#include "kernels/arguments.h"
#include "support/counted.h"

namespace regard::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST_F(Gpu, DevicesAreDescribed) {
  char* text = nullptr;
  ASSERT_EQ(regard_info(&text), REGARD_OK) << message();
  const nlohmann::json gpus = nlohmann::json::parse(text).at("gpus");
  regard_string_free(text);
  ASSERT_EQ(gpus.size(), 4U);
  EXPECT_EQ(gpus[0].at("name"), "Fake Hopper");
  EXPECT_EQ(gpus[1].at("chip"), "sm_80");
  EXPECT_EQ(gpus[2].at("kind"), "hip");
  EXPECT_EQ(gpus[2].at("chip"), "gfx942");
  EXPECT_EQ(gpus[3].at("name"), "Fake Radeon");
}

TEST_F(Gpu, TheTargetCudaIsTheBestOfTheCurrentDevice) {
  EXPECT_STREQ(regard_plan_target(Call(plain, 0).plan), "sm_90a");
}

TEST_F(Gpu, APlanSaysThatItsTensorsAreThere) {
  EXPECT_EQ(regard_plan_on_gpu(Call(plain).plan), 1);
}

TEST_F(Gpu, ATargetOfAnotherDeviceIsRefused) {
  fake_use(1);
  void* memory = nullptr;
  EXPECT_EQ(regard_memory_allocate("sm_90a", 64, &memory), REGARD_REFUSED);
  EXPECT_THAT(message(), AllOf(HasSubstr("sm_90a"), HasSubstr("Fake Ampere"), HasSubstr("sm_80")));
}

/// A problem whose kernel stores O by TMA; that of `plain` does not.
constexpr char boxed[] = "fwd bf16 b=2 hq=8 hk=2 s=300 d=128 mask=causal";

struct Seen {
  FakeLaunch launch;
  std::array<cuda::TensorMap, 4> maps;  ///< of Q, K, V and O
  Arguments arguments;
} seen;

void see_maps(void** parameters) {
  for (int i = 0; i < 4; ++i) seen.maps[i] = *static_cast<cuda::TensorMap*>(parameters[i]);
}

TEST_F(Gpu, ALaunchHasTheStreamTheTensorsAndACounterAtZero) {
  const Call call(plain);
  driver.on_launch = [](const FakeLaunch& launch, void** parameters) {
    seen.launch = launch;
    see_maps(parameters);
    seen.arguments = *static_cast<Arguments*>(parameters[4]);
  };
  int stream = 0;
  ASSERT_EQ(call.run(&stream), REGARD_OK) << message();
  EXPECT_EQ(seen.launch.stream, reinterpret_cast<cuda::Stream>(&stream));
  EXPECT_GE(seen.launch.blocks, 1U);
  EXPECT_LE(seen.launch.blocks, 132U);
  EXPECT_EQ(seen.launch.threads % 128, 0U);
  EXPECT_GT(seen.launch.shared_bytes, 48U << 10);
  const regard_role roles[] = {REGARD_Q, REGARD_K, REGARD_V};
  for (int i = 0; i < 3; ++i) {
    const regard_tensor& tensor = call.arguments.tensor[roles[i]];
    const std::uint64_t* map = seen.maps[i].opaque;
    EXPECT_EQ(map[0], reinterpret_cast<std::uint64_t>(tensor.data));
    // Columns, rows, heads, batches; then the byte strides of rows, heads and batches.
    EXPECT_THAT(std::vector<std::int64_t>(map + 1, map + 5),
                testing::ElementsAre(tensor.shape[3], tensor.shape[1], tensor.shape[2], tensor.shape[0]));
    EXPECT_THAT(std::vector<std::int64_t>(map + 5, map + 8),
                testing::ElementsAre(2 * tensor.strides[1], 2 * tensor.strides[2], 2 * tensor.strides[0]));
  }
  const Arguments& a = seen.arguments;
  EXPECT_EQ(a.o.data, call.arguments.tensor[REGARD_O].data);
  EXPECT_EQ(a.lse.data, call.arguments.tensor[REGARD_LSE].data);
  EXPECT_EQ(a.sq, 300);
  EXPECT_EQ(a.sk, 500);
  ASSERT_NE(a.counter, nullptr);
  EXPECT_EQ(*a.counter, 0U);
}

TEST_F(Gpu, AKernelThatStoresBoxesHasAMapOfO) {
  const Call call(boxed);
  driver.on_launch = [](const FakeLaunch&, void** parameters) { see_maps(parameters); };
  const int before = driver.encoded;
  ASSERT_EQ(call.run(), REGARD_OK) << message();
  EXPECT_EQ(driver.encoded - before, 4);
  const regard_tensor& o = call.arguments.tensor[REGARD_O];
  EXPECT_EQ(seen.maps[3].opaque[0], reinterpret_cast<std::uint64_t>(o.data));
  EXPECT_THAT(std::vector<std::int64_t>(seen.maps[3].opaque + 1, seen.maps[3].opaque + 5),
              testing::ElementsAre(o.shape[3], o.shape[1], o.shape[2], o.shape[0]));
}

/// For each launch, whether it may overlap the previous one.
std::vector<bool> overlaps;

TEST_F(Gpu, TheMergeOfPartsBeginsWhileTheyEndWhereTheChipCanWait) {
  struct Case {
    const char *target, *family;
    int device;
    bool overlaps;
  };
  for (const Case& c : {Case{"sm_90a", "sm90_forward", 0, true}, Case{"sm_90a", "portable_forward", 0, true},
                        Case{"sm_80", nullptr, 1, false}}) {
    const Call call("fwd bf16 b=1 h=2 sq=64 sk=1024 d=64 splits=4", c.device, c.target, c.family);
    driver.on_launch = [](const FakeLaunch& launch, void**) { overlaps.push_back(launch.overlaps); };
    overlaps.clear();
    ASSERT_EQ(call.run(), REGARD_OK) << message();
    EXPECT_THAT(overlaps, testing::ElementsAre(false, c.overlaps)) << c.target;
  }
}

/// For each launch, the number of blocks in a cluster.
std::vector<unsigned> clusters;

TEST_F(Gpu, BlocksThatLoadForEachOtherAreLaunchedAsClusters) {
  const Call call("fwd bf16 b=1 h=2 sq=200 sk=4500 d=256", 0, "cuda", "cluster=2");
  driver.on_launch = [](const FakeLaunch& launch, void**) {
    EXPECT_EQ(launch.blocks, 4U);
    clusters.push_back(launch.cluster);
  };
  clusters.clear();
  ASSERT_EQ(call.run(), REGARD_OK) << message();
  EXPECT_THAT(clusters, testing::ElementsAre(2U));
}

TEST_F(Gpu, TensorsSeenBeforeAreNotEncodedAgain) {
  Call call("fwd bf16 b=3 h=2 sq=77 sk=99 d=64");  // unlike other tests' problems: it may reuse their memory
  driver.on_launch = [](const FakeLaunch&, void** parameters) { see_maps(parameters); };
  const auto encoded_by_a_run = [&] {
    const int before = driver.encoded;
    EXPECT_EQ(call.run(), REGARD_OK) << message();
    return driver.encoded - before;
  };
  EXPECT_EQ(encoded_by_a_run(), 3);
  EXPECT_EQ(encoded_by_a_run(), 0);
  regard_tensor &k = call.arguments.tensor[REGARD_K], &v = call.arguments.tensor[REGARD_V];
  std::swap(k.data, v.data);
  EXPECT_EQ(encoded_by_a_run(), 0);  // K and V have the same shape
  EXPECT_EQ(seen.maps[1].opaque[0], reinterpret_cast<std::uint64_t>(k.data));
  EXPECT_EQ(seen.maps[2].opaque[0], reinterpret_cast<std::uint64_t>(v.data));
  // The same memory with different strides.
  k.strides[0] *= 2;
  EXPECT_EQ(encoded_by_a_run(), 1);
  EXPECT_EQ(seen.maps[1].opaque[7], 2U * static_cast<std::uint64_t>(k.strides[0]));
  k.data = static_cast<char*>(k.data) + 16;
  EXPECT_EQ(encoded_by_a_run(), 1);
  EXPECT_EQ(seen.maps[1].opaque[0], reinterpret_cast<std::uint64_t>(k.data));
}

TEST_F(Gpu, TheLayersOfAModelInTurnsAreEncodedOnce) {
  Call call("fwd bf16 b=1 hq=8 hk=2 sq=5 sk=40 d=64");
  regard_tensor &k = call.arguments.tensor[REGARD_K], &v = call.arguments.tensor[REGARD_V];
  char *const first_k = static_cast<char*>(k.data), *const first_v = static_cast<char*>(v.data);
  driver.on_launch = [](const FakeLaunch&, void** parameters) { see_maps(parameters); };
  constexpr int layers = 32;
  const auto encoded_by_a_step = [&] {
    const int before = driver.encoded;
    for (int layer = 0; layer < layers; ++layer) {
      k.data = first_k + layer * 10240, v.data = first_v + layer * 10240;
      EXPECT_EQ(call.run(), REGARD_OK) << message();
      EXPECT_EQ(seen.maps[1].opaque[0], reinterpret_cast<std::uint64_t>(k.data));
      EXPECT_EQ(seen.maps[2].opaque[0], reinterpret_cast<std::uint64_t>(v.data));
    }
    return driver.encoded - before;
  };
  EXPECT_EQ(encoded_by_a_step(), 1 + 2 * layers);
  for (int step = 0; step < 3; ++step) EXPECT_EQ(encoded_by_a_step(), 0);
}

TEST_F(Gpu, MoreTensorsThanAreRememberedAreEncodedAgain) {
  Call call("fwd bf16 b=1 h=1 sq=17 sk=10 d=64");
  regard_tensor& k = call.arguments.tensor[REGARD_K];
  char* const first = static_cast<char*>(k.data);
  driver.on_launch = [](const FakeLaunch&, void** parameters) { see_maps(parameters); };
  for (int turn = 0; turn < 2; ++turn) {
    for (int i = 0; i < 700; ++i) {
      k.data = first + i * 1280;
      const int before = driver.encoded;
      EXPECT_EQ(call.run(), REGARD_OK) << message();
      EXPECT_LE(driver.encoded - before, i == 0 ? 3 : 1);  // Q and V stay encoded
      const std::uint64_t expected[] = {
          reinterpret_cast<std::uint64_t>(call.arguments.tensor[REGARD_Q].data),
          reinterpret_cast<std::uint64_t>(k.data),
          reinterpret_cast<std::uint64_t>(call.arguments.tensor[REGARD_V].data)};
      for (int tensor = 0; tensor < 3; ++tensor) EXPECT_EQ(seen.maps[tensor].opaque[0], expected[tensor]);
    }
  }
}

void shift_o(regard_arguments& a) {
  a.tensor[REGARD_O].data = static_cast<char*>(a.tensor[REGARD_O].data) + 2;
}

TEST_F(Gpu, OMayBeAnywhereIfTheMergeStoresIt) {
  Call call("fwd bf16 b=1 hq=8 hk=2 sq=1 sk=4096 d=64 splits=4", 0, "cuda", "sm90_forward");
  shift_o(call.arguments);
  EXPECT_EQ(call.run(), REGARD_OK) << message();
}

TEST_F(Gpu, OMayHaveAnyWholeStridesIfThreadsStoreIt) {
  Call call("fwd bf16 b=2 hq=8 hk=2 s=300 d=64 lengths", 0, "cuda", "sm90_forward");
  call.arguments.tensor[REGARD_O].strides[0] += 8;  // a map would need a multiple of the row stride
  EXPECT_EQ(call.run(), REGARD_OK) << message();
  call.arguments.tensor[REGARD_O].strides[0] -= 4;
  EXPECT_EQ(call.run(), REGARD_REFUSED);
  EXPECT_THAT(message(), HasSubstr("o has a stride of"));
}

/// Tensors that the Hopper kernel cannot access, for one reason at a time, and the words of the refusal.
struct Unreachable {
  const char* text;
  void (*change)(regard_arguments&);
  const char* why;
};
const Unreachable unreachable[] = {
    {plain,
     [](regard_arguments& a) { a.tensor[REGARD_K].data = static_cast<char*>(a.tensor[REGARD_K].data) + 2; },
     "k does not start at a multiple of 16 bytes"},
    {plain,
     [](regard_arguments& a) {
       a.tensor[REGARD_Q].strides[1] = 513, a.tensor[REGARD_Q].strides[0] = 513 * 300;
     },
     "q has a stride of 513 elements"},
    {plain, [](regard_arguments& a) { a.tensor[REGARD_V].strides[2] = 0; }, "v has a stride of 0 elements"},
    {"fwd bf16 b=2 hq=8 hk=2 sq=300 sk=500 d=64 lengths",
     [](regard_arguments& a) { a.tensor[REGARD_K].strides[0] += 8; }, "not a multiple of its row stride"},
    {"fwd bf16 b=2 hq=8 hk=2 s=300 d=128 mask=causal lengths",
     [](regard_arguments& a) { a.tensor[REGARD_O].strides[0] += 8; }, "not a multiple of its row stride"},
    {plain, shift_o, "o does not start at a multiple of 16 bytes"},
    {boxed, shift_o, "o does not start at a multiple of 16 bytes"},
};

TEST_F(Gpu, TensorsThatItCannotReachTakeThePortableKernel) {
  for (const Unreachable& one : unreachable) {
    Call call(one.text);
    const auto launched_with_maps = [&] {
      driver.on_launch = [](const FakeLaunch& launch, void**) { seen.launch = launch; };
      EXPECT_EQ(call.run(), REGARD_OK) << message();
      return seen.launch.threads == 384;  // three warpgroups; the portable kernel has four warps
    };
    EXPECT_TRUE(launched_with_maps());
    one.change(call.arguments);
    EXPECT_FALSE(launched_with_maps()) << one.why;
  }
}

TEST_F(Gpu, TensorsThatItCannotReachAreRefusedWhereItIsAskedFor) {
  for (const Unreachable& one : unreachable) {
    Call call(one.text, 0, "cuda", "sm90_forward");
    one.change(call.arguments);
    EXPECT_EQ(call.run(), REGARD_REFUSED);
    EXPECT_THAT(message(), AllOf(HasSubstr(one.why), HasSubstr("family=portable_forward")));
  }
}

TEST_F(Gpu, AnUnusedStrideOfAStoredRowMayBeAnything) {
  Call call("fwd bf16 b=2 h=1 sq=1 sk=64 d=64 lengths", 0, "cuda", "sm90_forward");
  call.arguments.tensor[REGARD_O].strides[1] = 3;
  EXPECT_EQ(call.run(), REGARD_OK) << message();
}

TEST_F(Gpu, AnUnusedStrideMayBeAnything) {
  Call call("fwd bf16 b=1 h=1 sq=1 sk=64 d=64", 0, "cuda", "sm90_forward");
  for (const regard_role role : {REGARD_Q, REGARD_K})
    for (const int dimension : {0, 2}) call.arguments.tensor[role].strides[dimension] = 3;
  call.arguments.tensor[REGARD_Q].strides[1] = -1;
  EXPECT_EQ(call.run(), REGARD_OK) << message();
}

TEST_F(Gpu, AKernelIsLoadedOncePerDevice) {
  const Call call("fwd bf16 b=1 h=2 s=64 d=128");
  const int before = driver.loads[0];
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      for (int n = 0; n < 20; ++n) EXPECT_EQ(call.run(), REGARD_OK) << message();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(driver.loads[0], before + 1);
}

TEST_F(Gpu, TheContextOfTheCallerComesBack) {
  const Call call(plain);
  fake_use(1);
  const int pushed = driver.pushed, popped = driver.popped;
  EXPECT_EQ(call.run(), REGARD_OK) << message();  // runs on the device of its tensors
  EXPECT_EQ(driver.pushed - pushed, 1);
  EXPECT_EQ(driver.popped - popped, 1);
  fake_use(0);
  EXPECT_EQ(call.run(), REGARD_OK) << message();
  EXPECT_EQ(driver.pushed - pushed, 1);
}

TEST_F(Gpu, TensorsElsewhereAreRefusedByName) {
  Call call(plain);
  alignas(64) static char host[1 << 20];
  const int launches = driver.launches;
  for (regard_role role : {REGARD_Q, REGARD_V, REGARD_LSE}) {
    void* const right = std::exchange(call.arguments.tensor[role].data, host);
    EXPECT_EQ(call.run(), REGARD_INVALID);
    EXPECT_THAT(message(),
                AllOf(testing::StartsWith(regard_role_name(role)), HasSubstr("memory of the host")));
    call.arguments.tensor[role].data = right;
  }
  fake_use(1);
  void* other = nullptr;
  ASSERT_EQ(regard_memory_allocate("cuda", 1 << 20, &other), REGARD_OK) << message();
  void* const right = std::exchange(call.arguments.tensor[REGARD_K].data, other);
  EXPECT_EQ(call.run(), REGARD_INVALID);
  EXPECT_THAT(message(), HasSubstr("k is on GPU 1 and q on GPU 0"));
  call.arguments.tensor[REGARD_K].data = right;
  void* const workspace = std::exchange(call.workspace, host);
  EXPECT_EQ(call.run(), REGARD_INVALID);
  EXPECT_THAT(message(), HasSubstr("the workspace lies in the memory of the host"));
  call.workspace = workspace;
  EXPECT_EQ(regard_memory_free(other), REGARD_OK);
  EXPECT_EQ(driver.launches, launches);
}

TEST_F(Gpu, TensorsWithoutMemoryAreRefusedByName) {
  for (const char* text : {plain, "fwd bf16 lse b=2 h=2 s=200 d=64 bits ranges sink bias=bh",
                           "fwd bf16 lse b=3 hq=4 hk=2 sq=200 sk=200 tq=400 tk=400 d=64 varlen"}) {
    Call call(text);
    const int launches = driver.launches;
    for (int i = 0; i < REGARD_ROLE_COUNT; ++i) {
      regard_tensor& tensor = call.arguments.tensor[i];
      if (tensor.data == nullptr) continue;
      void* const right = std::exchange(tensor.data, nullptr);
      const std::string word =
          std::string("'") + regard_role_name(static_cast<regard_role>(i)) + "' is missing";
      EXPECT_EQ(call.run(), REGARD_INVALID) << text;
      EXPECT_THAT(message(), HasSubstr(word));
      regard_plan_options options = REGARD_PLAN_OPTIONS_INIT;
      options.target = "cuda";
      EXPECT_EQ(regard_attention(call.problem, &options, &call.arguments), REGARD_INVALID) << text;
      EXPECT_THAT(message(), HasSubstr(word));
      tensor.data = right;
    }
    void* const workspace = std::exchange(call.workspace, nullptr);
    EXPECT_EQ(call.run(), regard_plan_workspace_bytes(call.plan) > 0 ? REGARD_INVALID : REGARD_OK);
    call.workspace = workspace;
    EXPECT_EQ(driver.launches, regard_plan_workspace_bytes(call.plan) > 0 ? launches : launches + 1);
  }
}

TEST_F(Gpu, WhereTensorsAreIsAskedOnce) {
  const Call call(plain);
  const auto asked_by_a_run = [&] {
    const int before = driver.asked;
    EXPECT_EQ(call.run(), REGARD_OK) << message();
    return driver.asked - before;
  };
  EXPECT_EQ(asked_by_a_run(), 6);  // Q, K, V, O, LSE and the workspace
  EXPECT_EQ(asked_by_a_run(), 1);  // Q: its address may now belong to another device
  void* other = nullptr;
  ASSERT_EQ(regard_memory_allocate("cuda", 64, &other), REGARD_OK) << message();
  EXPECT_EQ(regard_memory_free(other), REGARD_OK) << message();
  EXPECT_EQ(asked_by_a_run(), 6);
}

TEST_F(Gpu, ARepeatedCallAsksForNoMemory) {
  if (!counts) GTEST_SKIP() << "a sanitizer has malloc";
  for (const char* text : {plain, "fwd bf16 b=2 h=2 s=64 d=64", "fwd fp32 b=2 h=2 s=64 d=64"}) {
    const Call call(text);
    EXPECT_EQ(call.run(), REGARD_OK) << message();
    regard_status status = REGARD_OK;
    const Counted asked = counted([&] { status = call.run(); });
    EXPECT_EQ(status, REGARD_OK) << text;
    EXPECT_EQ(asked.allocations, 0) << text;
  }
}

TEST_F(Gpu, NothingIsLoadedWhileAGraphIsCaptured) {
  const Call call("fwd bf16 b=1 h=2 s=64 d=256");
  driver.capturing = 1;
  EXPECT_EQ(call.run(), REGARD_REFUSED);
  EXPECT_THAT(message(), HasSubstr("regard_plan_prepare"));
  ASSERT_EQ(regard_plan_prepare(call.plan), REGARD_OK) << message();
  EXPECT_EQ(call.run(), REGARD_OK) << message();
}

TEST_F(Gpu, AFailureOfTheDriverIsItsSentence) {
  const Call call(plain);
  driver.launch_code = cuda::out_of_memory;
  EXPECT_EQ(call.run(), REGARD_NO_MEMORY);
  EXPECT_THAT(message(), HasSubstr("CUDA could not launch a kernel: out of memory"));
  driver.launch_code = cuda::not_initialized;
  EXPECT_EQ(call.run(), REGARD_REFUSED);
  EXPECT_THAT(message(), HasSubstr("a forked child"));
  driver.most_bytes = 100;
  void* memory = nullptr;
  EXPECT_EQ(regard_memory_allocate("cuda", 101, &memory), REGARD_NO_MEMORY);
  EXPECT_THAT(message(), AllOf(HasSubstr("Fake Hopper"), HasSubstr("101 bytes")));
}

TEST_F(Gpu, OneCallBringsItsOwnWorkspace) {
  const Call call(plain);
  regard_plan_options options = REGARD_PLAN_OPTIONS_INIT;
  options.target = "cuda";
  const int launches = driver.launches;
  EXPECT_EQ(regard_attention(call.problem, &options, &call.arguments), REGARD_OK) << message();
  EXPECT_EQ(driver.launches, launches + 1);
  driver.most_bytes = 1;
  EXPECT_EQ(regard_attention(call.problem, &options, &call.arguments), REGARD_NO_MEMORY);
}

TEST_F(Gpu, ThePlanReportsTheKernelsResources) {
  const Call call(plain);
  ASSERT_EQ(regard_plan_prepare(call.plan), REGARD_OK) << message();
  char* text = nullptr;
  ASSERT_EQ(regard_plan_json(call.plan, &text), REGARD_OK) << message();
  const nlohmann::json stage = nlohmann::json::parse(text).at("stages").at(0);
  regard_string_free(text);
  EXPECT_GT(stage.at("shared_bytes").get<int>(), 0);
  EXPECT_GT(stage.at("resources").at("registers").get<int>(), 0);
  EXPECT_EQ(stage.at("resources").at("spill_bytes").get<int>(), 0);
}

}  // namespace
}  // namespace regard::test
