// The C ABI's contract: statuses, sentences, handles, and the path of one call.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <new>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "abi/handles.h"
#include "base/result.h"
#include "regard/regard.h"

namespace {

using ::testing::HasSubstr;

std::string message() {
  return regard_status_message();
}

struct Problem {
  explicit Problem(const char* text) {
    EXPECT_EQ(regard_problem_parse(text, &handle), REGARD_OK) << text << ": " << message();
  }
  ~Problem() { regard_problem_destroy(handle); }
  regard_problem* handle = nullptr;
};

/// fp32 inputs and outputs of a small forward problem, as the library itself specifies them.
struct Call {
  explicit Call(const Problem& problem) {
    for (int index = 0; index < REGARD_ROLE_COUNT; ++index) {
      regard_use use;
      regard_tensor tensor;
      EXPECT_EQ(regard_problem_tensor(problem.handle, static_cast<regard_role>(index), &use, &tensor),
                REGARD_OK);
      if (use == REGARD_UNUSED || use == REGARD_OPTIONAL_INPUT) continue;
      std::size_t elements = 1;
      for (int i = 0; i < tensor.rank; ++i) elements *= static_cast<std::size_t>(tensor.shape[i]);
      memory.emplace_back(elements);
      for (std::size_t i = 0; i < elements; ++i)
        memory.back()[i] = std::sin(static_cast<float>(i * 7 + index));
      tensor.data = memory.back().data();
      arguments.tensor[index] = tensor;
    }
  }
  float* data(regard_role role) { return static_cast<float*>(arguments.tensor[role].data); }
  std::vector<std::vector<float>> memory;
  regard_arguments arguments = REGARD_ARGUMENTS_INIT;
};

TEST(CApi, StatusValuesAreTheErrorKinds) {
  EXPECT_EQ(static_cast<int>(regard::ErrorKind::invalid), REGARD_INVALID);
  EXPECT_EQ(static_cast<int>(regard::ErrorKind::refused), REGARD_REFUSED);
  EXPECT_EQ(static_cast<int>(regard::ErrorKind::no_kernel), REGARD_NO_KERNEL);
  EXPECT_EQ(static_cast<int>(regard::ErrorKind::no_memory), REGARD_NO_MEMORY);
  EXPECT_EQ(static_cast<int>(regard::ErrorKind::internal), REGARD_INTERNAL);
  EXPECT_EQ(static_cast<int>(regard::ErrorKind::interrupted), REGARD_INTERRUPTED);
}

TEST(CApi, WhateverIsThrownBecomesAStatus) {
  EXPECT_EQ(regard::c_api::guarded([]() -> regard_status { throw std::bad_alloc(); }), REGARD_NO_MEMORY);
  EXPECT_EQ(regard::c_api::guarded([]() -> regard_status { throw std::runtime_error("why"); }),
            REGARD_INTERNAL);
  EXPECT_STREQ(regard_status_message(), "unexpected failure inside Regard: why");
  EXPECT_EQ(regard::c_api::guarded([]() -> regard_status { throw 3; }), REGARD_INTERNAL);
  EXPECT_STREQ(regard_status_message(), "unexpected failure inside Regard");
}

/// Covers each pointer parameter of each function, unless null means that it is left out.
TEST(CApi, NullPointersAreSentences) {
  const Problem problem("fwd fp32 h=1 s=8 d=8");
  const Call call(problem);
  regard_plan* plan = nullptr;
  ASSERT_EQ(regard_plan_create(problem.handle, nullptr, &plan), REGARD_OK) << message();
  const auto expect_named = [](regard_status status, const std::string& name) {
    EXPECT_EQ(status, REGARD_INVALID) << name;
    EXPECT_EQ(message(), name + " is a null pointer");
  };
  regard_problem* made = nullptr;
  char* text = nullptr;
  char byte = 0;
  expect_named(regard_problem_parse(nullptr, &made), "text");
  expect_named(regard_problem_parse("fwd", nullptr), "problem");
  expect_named(regard_problem_from_json(nullptr, &made), "json");
  expect_named(regard_problem_from_json("{}", nullptr), "problem");
  expect_named(regard_problem_tensor(nullptr, REGARD_Q, nullptr, nullptr), "problem");
  regard_role role = REGARD_Q;
  expect_named(regard_problem_captured(nullptr, "slope", &role), "problem");
  expect_named(regard_problem_words(nullptr), "json");
  expect_named(regard_plan_create(nullptr, nullptr, &plan), "problem");
  expect_named(regard_plan_create(problem.handle, nullptr, nullptr), "plan");
  expect_named(regard_plan_prepare(nullptr), "plan");
  expect_named(regard_plan_json(nullptr, &text), "plan");
  expect_named(regard_plan_json(plan, nullptr), "json");
  expect_named(regard_explain(nullptr, nullptr, nullptr, &text), "problem");
  expect_named(regard_explain(problem.handle, nullptr, nullptr, nullptr), "explanation");
  expect_named(regard_plan_run(nullptr, &call.arguments, nullptr, 0, nullptr), "plan");
  expect_named(regard_plan_run(plan, nullptr, nullptr, 0, nullptr), "arguments");
  expect_named(regard_attention(nullptr, nullptr, &call.arguments), "problem");
  expect_named(regard_attention(problem.handle, nullptr, nullptr), "arguments");
  expect_named(regard_check(nullptr, &call.arguments, &text), "problem");
  expect_named(regard_check(problem.handle, nullptr, &text), "arguments");
  expect_named(regard_check(problem.handle, &call.arguments, nullptr), "report");
  expect_named(regard_memory_allocate(nullptr, 8, nullptr), "memory");
  expect_named(regard_memory_copy(nullptr, &byte, 1), "to");
  expect_named(regard_memory_copy(&byte, nullptr, 1), "from");
  expect_named(regard_info(nullptr), "json");
  expect_named(regard_list(nullptr, nullptr, nullptr), "json");
  expect_named(regard_prepare_kernel(nullptr, &text), "kernel");
  expect_named(regard_prepare_kernel("kernel", nullptr), "json");
  expect_named(regard_build(nullptr, nullptr, &text), "manifest");
  expect_named(regard_build("te.toml", nullptr, nullptr), "json");
  expect_named(regard_package_folders(nullptr, 1), "folders");
  expect_named(regard_package_bundle(nullptr), "path");
  const char* const none[] = {nullptr};
  expect_named(regard_package_folders(none, 1), "folders[0]");
  expect_named(regard_cache("stat", nullptr), "json");
  EXPECT_EQ(made, nullptr);
  EXPECT_EQ(text, nullptr);
  EXPECT_EQ(regard_problem_text(nullptr), nullptr);
  EXPECT_EQ(regard_problem_json(nullptr), nullptr);
  EXPECT_EQ(regard_problem_flops(nullptr), 0);
  EXPECT_EQ(regard_plan_target(nullptr), nullptr);
  EXPECT_EQ(regard_plan_on_gpu(nullptr), 0);
  EXPECT_EQ(regard_plan_workspace_bytes(nullptr), 0);
  regard_problem_destroy(nullptr);
  regard_plan_destroy(nullptr);
  regard_string_free(nullptr);
  EXPECT_EQ(regard_memory_free(nullptr), REGARD_OK);
  regard_plan_destroy(plan);
}

TEST(CApi, NumbersWithoutANameAreSentences) {
  const Problem problem("fwd fp32 h=1 s=8 d=8");
  for (const int number : {-1, static_cast<int>(REGARD_ROLE_COUNT), 64, 1000, INT32_MIN, INT32_MAX}) {
    const auto role = static_cast<regard_role>(number);
    regard_use use = REGARD_OUTPUT;
    regard_tensor tensor{};
    EXPECT_EQ(regard_problem_tensor(problem.handle, role, &use, &tensor), REGARD_INVALID) << number;
    EXPECT_EQ(message().rfind("role " + std::to_string(number) + " does not exist", 0), 0U) << message();
    EXPECT_EQ(use, REGARD_OUTPUT);
    EXPECT_EQ(regard_role_name(role), nullptr) << number;
    EXPECT_STREQ(regard_status_name(static_cast<regard_status>(number == -1 ? 7 : number)), "unknown");
    Call call(problem);
    call.arguments.tensor[REGARD_K].dtype = static_cast<regard_dtype>(number);
    EXPECT_EQ(regard_attention(problem.handle, nullptr, &call.arguments), REGARD_INVALID) << number;
    EXPECT_THAT(message(), HasSubstr("'k' is of the unknown dtype " + std::to_string(number)));
    call.arguments.tensor[REGARD_K].dtype = REGARD_FP32;
    call.arguments.tensor[REGARD_K].rank = number;
    EXPECT_EQ(regard_attention(problem.handle, nullptr, &call.arguments), REGARD_INVALID) << number;
    EXPECT_THAT(message(), HasSubstr("'k' has rank " + std::to_string(number)));
  }
}

TEST(CApi, NegativeCountsAreSentences) {
  char byte = 0;
  void* memory = nullptr;
  EXPECT_EQ(regard_package_folders(nullptr, -1), REGARD_INVALID);
  EXPECT_THAT(message(), HasSubstr("count is -1"));
  EXPECT_EQ(regard_memory_allocate(nullptr, -1, &memory), REGARD_INVALID);
  EXPECT_EQ(regard_memory_copy(&byte, &byte, -1), REGARD_INVALID);
  const Problem problem("fwd fp32 h=2 s=64 d=64");
  const Call call(problem);
  regard_plan* plan = nullptr;
  ASSERT_EQ(regard_plan_create(problem.handle, nullptr, &plan), REGARD_OK) << message();
  EXPECT_EQ(regard_plan_run(plan, &call.arguments, &byte, -1, nullptr), REGARD_INVALID);
  EXPECT_THAT(message(), HasSubstr("the workspace has -1 bytes"));
  EXPECT_EQ(regard_plan_run(plan, &call.arguments, nullptr, 1 << 30, nullptr), REGARD_INVALID);
  EXPECT_THAT(message(), HasSubstr("the workspace has 0 bytes"));
  regard_plan_destroy(plan);
}

/// The arguments of a caller whose header had another number of roles.
struct OtherVersion {
  OtherVersion(const Call& call, std::ptrdiff_t more_roles)
      : memory(sizeof(regard_arguments) / 8 + 1024),
        size(sizeof(regard_arguments) + static_cast<std::size_t>(more_roles) * sizeof(regard_tensor)) {
    std::memcpy(memory.data(), &call.arguments, std::min(size, sizeof(regard_arguments)));
    std::memcpy(memory.data(), &size, sizeof size);
    // An older caller's memory ends there; the library must not read past it.
    char* bytes = reinterpret_cast<char*>(memory.data());
    std::memset(bytes + size, 0xee, memory.size() * 8 - size);
  }
  const regard_arguments* get() const { return reinterpret_cast<const regard_arguments*>(memory.data()); }
  char* beyond() { return reinterpret_cast<char*>(memory.data()) + sizeof(regard_arguments); }
  std::vector<std::uint64_t> memory;
  std::size_t size;
};

TEST(CApi, ArgumentsOfAnOlderOrNewerHeaderAreUnderstood) {
  const Problem problem("fwd fp32 b=1 h=2 s=16 d=16");
  constexpr std::ptrdiff_t first =
      REGARD_SEED + 1 - REGARD_ROLE_COUNT;  // the first header ended with the seed
  static_assert(first < 0);
  for (const std::ptrdiff_t more :
       {first, first + 1, std::ptrdiff_t{0}, std::ptrdiff_t{1}, std::ptrdiff_t{40}}) {
    const Call call(problem);
    OtherVersion other(call, more);
    EXPECT_EQ(regard_attention(problem.handle, nullptr, other.get()), REGARD_OK) << more << ": " << message();
    char* report = nullptr;
    EXPECT_EQ(regard_check(problem.handle, other.get(), &report), REGARD_OK) << more << ": " << message();
    EXPECT_THAT(report, HasSubstr("\"ok\":true")) << more;
    regard_string_free(report);
  }
}

TEST(CApi, ArgumentsBeyondThisLibraryMustBeZero) {
  const Problem problem("fwd fp32 b=1 h=2 s=16 d=16");
  const Call call(problem);
  OtherVersion newer(call, 2);
  newer.beyond()[sizeof(regard_tensor)] = 1;
  EXPECT_EQ(regard_attention(problem.handle, nullptr, newer.get()), REGARD_INVALID);
  EXPECT_THAT(message(), HasSubstr("but what lies beyond is not zero"));
}

TEST(CApi, ASizeThatNoVersionHasIsASentence) {
  const Problem problem("fwd fp32 b=1 h=2 s=16 d=16");
  Call call(problem);
  const std::size_t first = offsetof(regard_arguments, tensor) + (REGARD_SEED + 1) * sizeof(regard_tensor);
  for (const std::size_t size : {std::size_t{0}, std::size_t{8}, first - sizeof(regard_tensor), first + 4,
                                 sizeof(regard_arguments) + 8, ~std::size_t{0}}) {
    call.arguments.size = size;
    EXPECT_EQ(regard_attention(problem.handle, nullptr, &call.arguments), REGARD_INVALID) << size;
    EXPECT_THAT(message(), HasSubstr("which no version of Regard has")) << size;
  }
  struct {
    regard_plan_options options = REGARD_PLAN_OPTIONS_INIT;
    std::uint64_t more = 0;
  } newer;
  newer.options.size = sizeof newer;
  const auto create = [&] {
    regard_plan* plan = nullptr;
    const regard_status status = regard_plan_create(problem.handle, &newer.options, &plan);
    regard_plan_destroy(plan);
    return status;
  };
  EXPECT_EQ(create(), REGARD_OK) << message();
  newer.more = 1;
  EXPECT_EQ(create(), REGARD_INVALID);
  EXPECT_THAT(message(), HasSubstr("regard_plan_options.size is 48"));
  newer.options.size = sizeof(regard_plan_options) - 1;
  EXPECT_EQ(create(), REGARD_INVALID);
  EXPECT_THAT(message(), HasSubstr("set it with REGARD_PLAN_OPTIONS_INIT"));
}

TEST(CApi, AnUnknownWordNamesTheNearest) {
  regard_problem* problem = nullptr;
  EXPECT_EQ(regard_problem_parse("fwd bf16 s=64 d=64 mask=causl", &problem), REGARD_INVALID);
  EXPECT_THAT(message(), HasSubstr("causal"));
}

TEST(CApi, ForwardRunsAndIsChecked) {
  const Problem problem("fwd fp32 b=2 h=3 s=70 d=40 mask=causal lse");
  Call call(problem);
  ASSERT_EQ(regard_attention(problem.handle, nullptr, &call.arguments), REGARD_OK) << message();
  char* report = nullptr;
  ASSERT_EQ(regard_check(problem.handle, &call.arguments, &report), REGARD_OK) << message();
  EXPECT_TRUE(nlohmann::json::parse(report)["ok"].get<bool>()) << report;
  // The first row of a causal square problem sees one key: its output is that value.
  EXPECT_FLOAT_EQ(call.data(REGARD_O)[0], call.data(REGARD_V)[0]);
  call.data(REGARD_O)[5] += 1;
  regard_string_free(report);
  ASSERT_EQ(regard_check(problem.handle, &call.arguments, &report), REGARD_OK);
  EXPECT_FALSE(nlohmann::json::parse(report)["ok"].get<bool>()) << "a wrong output must fail the check";
  regard_string_free(report);
}

TEST(CApi, AWrongWorkspaceIsRefused) {
  const Problem problem("fwd fp32 h=2 s=64 d=64");
  Call call(problem);
  regard_plan* plan = nullptr;
  ASSERT_EQ(regard_plan_create(problem.handle, nullptr, &plan), REGARD_OK) << message();
  const std::int64_t bytes = regard_plan_workspace_bytes(plan);
  ASSERT_GT(bytes, 0);
  std::vector<char> memory(static_cast<std::size_t>(bytes) + 128);
  char* aligned = memory.data() + (64 - reinterpret_cast<std::uintptr_t>(memory.data()) % 64) % 64;
  EXPECT_EQ(regard_plan_run(plan, &call.arguments, aligned, bytes - 1, nullptr), REGARD_INVALID);
  EXPECT_THAT(message(), HasSubstr("workspace"));
  EXPECT_EQ(regard_plan_run(plan, &call.arguments, aligned + 4, bytes, nullptr), REGARD_INVALID);
  EXPECT_THAT(message(), HasSubstr("64 bytes"));
  EXPECT_EQ(regard_plan_run(plan, &call.arguments, aligned, bytes, aligned), REGARD_INVALID);
  EXPECT_THAT(message(), HasSubstr("stream"));
  EXPECT_EQ(regard_plan_run(plan, &call.arguments, aligned, bytes, nullptr), REGARD_OK) << message();
  regard_plan_destroy(plan);
}

TEST(CApi, AStructOfAnotherSizeIsRefused) {
  const Problem problem("fwd fp32 h=1 s=8 d=8");
  Call call(problem);
  call.arguments.size = 8;
  EXPECT_EQ(regard_attention(problem.handle, nullptr, &call.arguments), REGARD_INVALID);
  EXPECT_THAT(message(), HasSubstr("REGARD_ARGUMENTS_INIT"));
}

TEST(CApi, AMissingTensorIsNamed) {
  const Problem problem("fwd fp32 h=1 s=8 d=8");
  Call call(problem);
  call.arguments.tensor[REGARD_V].data = nullptr;
  EXPECT_EQ(regard_attention(problem.handle, nullptr, &call.arguments), REGARD_INVALID);
  EXPECT_THAT(message(), HasSubstr("tensor 'v'"));
}

TEST(CApi, AProblemThatNoKernelOfAGpuTakesIsRefusedAndExplained) {
  const Problem problem("fwd bf16 b=2 h=16 s=1024 d=576 dv=512 mask=causal");
  for (const char* target : {"gfx90a", "gfx942"}) {
    regard_plan_options options = REGARD_PLAN_OPTIONS_INIT;
    options.target = target;
    regard_plan* plan = nullptr;
    EXPECT_EQ(regard_plan_create(problem.handle, &options, &plan), REGARD_REFUSED) << target;
    EXPECT_THAT(message(), HasSubstr(target));
    char* text = nullptr;
    ASSERT_EQ(regard_explain(problem.handle, &options, "json", &text), REGARD_OK) << message();
    const nlohmann::json explained = nlohmann::json::parse(text);
    EXPECT_FALSE(explained["verdicts"].empty());
    EXPECT_THAT(explained["refusal"].get<std::string>(), HasSubstr("give latent, and no V"));
    regard_string_free(text);
  }
}

// A plan for a GPU can be made on any machine; running it needs a driver, and tensors in the GPU's memory.
TEST(CApi, AGpuTargetRefusesTensorsOfTheHost) {
  const Problem problem("fwd bf16 h=64 s=512 d=64 mask=causal");
  Call call(problem);
  regard_plan_options options = REGARD_PLAN_OPTIONS_INIT;
  options.target = "sm_90a";
  options.family = "sm90_forward";  // with a mask it takes work from a counter in the workspace
  regard_plan* plan = nullptr;
  ASSERT_EQ(regard_plan_create(problem.handle, &options, &plan), REGARD_OK) << message();
  EXPECT_GT(regard_plan_workspace_bytes(plan), 0);
  regard_plan_destroy(plan);
  EXPECT_NE(regard_attention(problem.handle, &options, &call.arguments), REGARD_OK);
  EXPECT_THAT(message(), testing::AnyOf(HasSubstr("no NVIDIA driver"), HasSubstr("no GPU"),
                                        HasSubstr("q lies in the memory of the host")));
}

TEST(CApi, MemoryOfTheHostIsAllocatedCopiedAndFreed) {
  void* memory = nullptr;
  ASSERT_EQ(regard_memory_allocate("cpu-generic", 100, &memory), REGARD_OK) << message();
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory) % 64, 0U);
  const char text[] = "attention";
  ASSERT_EQ(regard_memory_copy(memory, text, sizeof text), REGARD_OK) << message();
  EXPECT_STREQ(static_cast<const char*>(memory), text);
  EXPECT_EQ(regard_stream_wait(nullptr, nullptr), REGARD_OK);
  EXPECT_EQ(regard_memory_wait(memory, nullptr), REGARD_OK);
  EXPECT_EQ(regard_memory_free(memory), REGARD_OK);
  EXPECT_EQ(regard_memory_free(nullptr), REGARD_OK);
  EXPECT_EQ(regard_memory_allocate(nullptr, -1, &memory), REGARD_INVALID);
  EXPECT_EQ(regard_memory_allocate("cpu-avx3", 1, &memory), REGARD_INVALID);
  EXPECT_EQ(regard_memory_copy(nullptr, text, 1), REGARD_INVALID);
}

TEST(CApi, AGpuWithoutADriverHasNoMemory) {
  void* memory = nullptr;
  EXPECT_EQ(regard_memory_allocate("gfx942", 100, &memory), REGARD_REFUSED);
  EXPECT_THAT(message(),
              testing::AnyOf(HasSubstr("no HIP runtime"), HasSubstr("no AMD GPU"),
                             HasSubstr("runtime of this machine is too old"), HasSubstr("not run on")));
}

TEST(CApi, UnknownTargetNamesTheNearest) {
  const Problem problem("fwd bf16 h=1 s=64 d=64");
  regard_plan_options options = REGARD_PLAN_OPTIONS_INIT;
  options.target = "cpu-avx215";
  regard_plan* plan = nullptr;
  EXPECT_EQ(regard_plan_create(problem.handle, &options, &plan), REGARD_INVALID);
  EXPECT_THAT(message(), HasSubstr("cpu-avx"));
}

TEST(CApi, AProblemSeenBeforeIsRemembered) {
  const Problem problem("fwd fp32 h=2 s=33 d=64");
  const auto hits = [] {
    char* info = nullptr;
    EXPECT_EQ(regard_info(&info), REGARD_OK) << message();
    const auto parsed = nlohmann::json::parse(info);
    regard_string_free(info);
    return parsed["counters"]["plan_hits"].get<long>();
  };
  const long before = hits();
  for (int i = 0; i < 3; ++i) {
    regard_plan* plan = nullptr;
    ASSERT_EQ(regard_plan_create(problem.handle, nullptr, &plan), REGARD_OK);
    regard_plan_destroy(plan);
  }
  EXPECT_EQ(hits(), before + 2);
}

TEST(CApi, ABatchOfNothingIsComputed) {
  for (const char* text :
       {"fwd fp32 b=0 hq=4 hk=2 sq=8 sk=12 d=16 lse mask=causal bits ranges sink bias=1h",
        "fwd fp32 b=0 h=2 s=300 d=64", "fwd fp32 b=0 hq=8 hk=1 sq=1 sk=5000 d=64 splits=4 lengths",
        "fwd fp32 varlen b=0 h=2 s=8 d=16", "bwd fp32 b=0 h=2 s=8 d=16 bias=11 dbias sink",
        "bwd fp32 b=0 h=2 s=300 d=64 bias=bh dbias deterministic"}) {
    const Problem problem(text);
    Call call(problem);
    if (call.arguments.tensor[REGARD_OFFSETS_Q].data != nullptr)
      *call.data(REGARD_OFFSETS_Q) = *call.data(REGARD_OFFSETS_K) = 0;
    EXPECT_EQ(regard_attention(problem.handle, nullptr, &call.arguments), REGARD_OK)
        << text << ": " << message();
    char* report = nullptr;
    ASSERT_EQ(regard_check(problem.handle, &call.arguments, &report), REGARD_OK) << text << ": " << message();
    EXPECT_THAT(report, HasSubstr("\"ok\":true")) << text;
    regard_string_free(report);
  }
}

/// The cost model divides by sizes, which are 0 here.
TEST(CApi, ABatchOfNothingIsPlannedOnEveryTarget) {
  for (const char* text :
       {"fwd bf16 b=0 hq=4 hk=2 s=64 d=64 mask=causal", "fwd bf16 b=0 hq=4 hk=2 sq=1 sk=1000 d=64 lengths",
        "fwd fp8 b=0 h=4 s=64 d=64 descale=head", "fwd bf16 varlen b=0 h=4 s=64 d=64",
        "fwd bf16 b=0 h=2 sq=1 sk=64 d=64 paged=16 lengths", "bwd bf16 b=0 h=2 s=64 d=64 deterministic",
        "append bf16 b=0 h=2 sq=1 sk=64 d=64 snew=1"}) {
    const Problem problem(text);
    for (const char* target : {"cpu-generic", "cpu-avx2", "cpu-avx512", "cpu-avx512bf16", "cpu-amx", "sm_80",
                               "sm_90a", "gfx942", "gfx1100"}) {
      regard_plan_options options = REGARD_PLAN_OPTIONS_INIT;
      options.target = target;
      char* explanation = nullptr;
      EXPECT_EQ(regard_explain(problem.handle, &options, "json", &explanation), REGARD_OK)
          << text << target << message();
      ASSERT_NE(explanation, nullptr);
      EXPECT_THAT(explanation, HasSubstr("b=0")) << text << target;
      regard_string_free(explanation);
    }
  }
}

TEST(CApi, ManyThreadsShareOnePlan) {
  const Problem problem("fwd fp32 b=1 h=2 s=65 d=33 mask=causal");
  Call reference(problem);
  ASSERT_EQ(regard_attention(problem.handle, nullptr, &reference.arguments), REGARD_OK) << message();
  std::vector<std::thread> threads;
  std::vector<int> equal(8, 0);
  for (std::size_t t = 0; t < equal.size(); ++t) {
    threads.emplace_back([&, t] {
      Call call(problem);
      for (int i = 0; i < 10; ++i) {
        if (regard_attention(problem.handle, nullptr, &call.arguments) != REGARD_OK) return;
      }
      equal[t] = std::equal(call.data(REGARD_O), call.data(REGARD_O) + 2 * 65 * 33, reference.data(REGARD_O));
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(equal, ::testing::Each(1));
}

TEST(CApi, ListsAndCacheVerbsAnswerInJson) {
  char* text = nullptr;
  ASSERT_EQ(regard_list(nullptr, nullptr, &text), REGARD_OK) << message();
  EXPECT_GT(nlohmann::json::parse(text).size(), 20u);
  regard_string_free(text);
  ASSERT_EQ(regard_list("cpu-avx2", "flash", &text), REGARD_OK) << message();
  EXPECT_GT(nlohmann::json::parse(text).size(), 10u);
  regard_string_free(text);
  EXPECT_EQ(regard_list(nullptr, "flsh", &text), REGARD_INVALID);
  EXPECT_THAT(message(), HasSubstr("flash"));
  ASSERT_EQ(regard_cache("stat", &text), REGARD_OK) << message();
  EXPECT_TRUE(nlohmann::json::parse(text).contains("entries"));
  regard_string_free(text);
  EXPECT_EQ(regard_cache("purge", &text), REGARD_INVALID);
  EXPECT_THAT(message(), HasSubstr("clean"));
}

}  // namespace
