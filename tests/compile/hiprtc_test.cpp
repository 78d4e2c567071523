// Where hiprtc is searched for; and the real one of ROCm 5, which is too old, but puts the same headers
// before a kernel as newer ones. tests/emulated_hip compiles with the emulator's.
#include "compile/hiprtc.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <utility>
#include <vector>

#include "compile/render.h"
#include "compile/rtc_program.h"
#include "plan/plan.h"
#include "support/sanitized.h"

namespace regard {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

constexpr std::string_view sonames[] = {"libamdhip64.so.5"};
constexpr RtcMake of_rocm_5 = {.name = "hiprtc", .prefix = "hiprtc", .code = "Code", .sonames = sonames};
const RtcLocation loader = {"the system's loader", ""};

TEST(Hiprtc, IsSearchedInOrderAndTheSettingReplacesAllPlaces) {
  const auto paths = [](const std::string& setting, const std::string& rocm_path) {
    const std::vector<std::string> packages = {"/packages"};
    std::vector<std::string> list;
    for (const RtcLocation& location : hiprtc_locations(setting, packages, rocm_path))
      list.push_back(location.path);
    return list;
  };
  EXPECT_THAT(paths("", "/rocm"), ElementsAre("/packages/_rocm_sdk_core/lib", "/packages/torch/lib",
                                              "/rocm/lib", "/opt/rocm/lib", ""));
  EXPECT_THAT(paths("", ""),
              ElementsAre("/packages/_rocm_sdk_core/lib", "/packages/torch/lib", "/opt/rocm/lib", ""));
  EXPECT_THAT(paths("/mine.so", "/rocm"), ElementsAre("/mine.so"));
}

TEST(Hiprtc, WhatIsNotThereIsOneSentenceWithAllPlaces) {
  const RtcLocation places[] = {{"ROCM_PATH", "/proc/sys"}, {"REGARD_HIPRTC", "libm.so.6"}};
  const auto missing = find_hiprtc(places);
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().message,
            "no hiprtc (HIP's run-time compiler); searched ROCM_PATH '/proc/sys' (none there); REGARD_HIPRTC "
            "'libm.so.6' ('libm.so.6' has no function hiprtcGetErrorString); install ROCm 6.4 or later, or "
            "set REGARD_HIPRTC to its libhiprtc.so");
}

TEST(Hiprtc, CodeWithoutACompilersNameHasNoIdentity) {
  EXPECT_EQ(hiprtc_identity({}), "");
  const std::vector<std::byte> zeros(1000);
  EXPECT_EQ(hiprtc_identity(zeros), "");
}

// As NVRTC writes its log, and as hiprtc does.
TEST(RtcProgram, ItsLogEndsWithItsZeroOrWithItsSize) {
  static constexpr char said[] = "1 error";
  static std::size_t size;
  RtcLibrary library;
  library.create = [](RtcHandle* handle, const char*, const char*, int, const char* const*,
                      const char* const*) {
    *handle = handle;
    return 0;
  };
  library.destroy = [](RtcHandle*) { return 0; };
  library.log_size = [](RtcHandle, std::size_t* to) {
    *to = size;
    return 0;
  };
  library.log = [](RtcHandle, char* to) {
    std::copy_n(said, size, to);
    return 0;
  };
  const std::atomic<bool> stop{false};
  const RtcProgram program(library, "", "kernel.hip", stop);
  for (size = 0; size <= sizeof said; ++size)
    EXPECT_EQ(program.log(), std::string(said).substr(0, size)) << "size " << size;
}

class HiprtcOfRocm5 : public testing::Test {
 protected:
  void SetUp() override {
#ifdef REGARD_SANITIZED
    GTEST_SKIP() << "the library has faults that sanitizers find";
#endif
    Result<RtcLibrary> opened = open_rtc(of_rocm_5, {&loader, 1});
    if (!opened) GTEST_SKIP() << "there is no libamdhip64.so.5";
    library_ = std::move(*opened);
  }
  RtcLibrary library_;
};

TEST_F(HiprtcOfRocm5, IsRefused) {
  const RtcLocation location{"REGARD_HIPRTC", library_.path};
  EXPECT_THAT(find_hiprtc({&location, 1}).error().message,
              AllOf(StartsWith("hiprtc in '/"), HasSubstr("/libamdhip64.so.5' uses clang 1"),
                    HasSubstr(", which is too old; install ROCm 6.4 or later, or set REGARD_HIPRTC")));
}

/// Replaces what its clang does not know yet.
std::string for_clang_15(std::string source) {
  const std::pair<std::string_view, std::string_view> changes[] = {
      {"__builtin_amdgcn_ballot_w64(x)", "__builtin_amdgcn_uicmp(u32(x), 0u, 33)"},
      {"__builtin_amdgcn_ballot_w32(x)", "__builtin_amdgcn_uicmp(u32(x), 0u, 33)"},
      {"\", \"local\")", "\")"},
      {"__builtin_amdgcn_sched_barrier(all_but_reads_of_lds)", ""},
      {"__builtin_amdgcn_exp2f", "__builtin_exp2f"},
      {"__bf16", "short"}};
  for (const auto& [from, to] : changes)
    for (std::size_t at = 0; (at = source.find(from, at)) != std::string::npos; at += to.size())
      source.replace(at, from.size(), to);
  return source;
}

TEST_F(HiprtcOfRocm5, SaysWhatIsWrongWithASource) {
  const std::atomic<bool> stop{false};
  RtcProgram program(library_, "extern \"C\" __attribute__((global)) void k() { missing(); }", "k.hip", stop);
  static constexpr const char* options[] = {"--offload-arch=gfx90a"};
  EXPECT_FALSE(program.compile(options));
  EXPECT_THAT(program.log(), HasSubstr("undeclared identifier 'missing'"));
}

TEST_F(HiprtcOfRocm5, HasHeadersWhoseNamesKernelsHide) {
  for (const char* problem : {"fwd bf16 lse b=1 hq=2 hk=1 s=200 d=128 mask=causal dropout=0.2 bias=bh",
                              "bwd fp16 b=1 h=2 s=100 d=64 softcap=20"}) {
    const Result<Plan> planned = plan(*parse(problem), **find_target("gfx90a"), {});
    ASSERT_TRUE(planned) << planned.error().message;
    for (const Stage& stage : planned->stages) {
      const Result<Rendered> kernel = render(stage.key);
      ASSERT_TRUE(kernel) << kernel.error().message;
      const std::atomic<bool> stop{false};
      RtcProgram program(library_, for_clang_15(kernel->source), "kernel.hip", stop);
      static constexpr const char* options[] = {"--offload-arch=gfx90a", "-std=c++20"};
      EXPECT_TRUE(program.compile(options)) << program.log();
      EXPECT_THAT(hiprtc_identity(program.code()), HasSubstr("clang version 1"));
    }
  }
}

}  // namespace
}  // namespace regard
