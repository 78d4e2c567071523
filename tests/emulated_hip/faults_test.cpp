// Small kernels that break a rule of AMD's GPUs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "emulated_hip/kernel.h"

namespace regard {
namespace {

using test::HipKernel;
using testing::HasSubstr;

std::string error_of(const std::string& body, const std::string& chip = "gfx942", unsigned threads = 128) {
  std::vector<unsigned> memory(1024);
  return HipKernel(test::kernel_source("u32* memory;", body), chip).run({1, threads, 1024}, memory.data());
}

TEST(HipFaults, AChipHasItsOwnBuiltinsOnly) {
  EXPECT_THAT(error_of("__builtin_amdgcn_permlane32_swap(1, 2, false, false);"),
              HasSubstr("gfx942 has no __builtin_amdgcn_permlane32_swap"));
  EXPECT_THAT(error_of("__builtin_amdgcn_ballot_w64(true);", "gfx1201"),
              HasSubstr("gfx1201 has no __builtin_amdgcn_ballot_w64"));
  const std::string copy =
      "__builtin_amdgcn_global_load_lds(x.memory, LdsPointer<void>(0), 16, 0, 0); RELEASE";
  EXPECT_THAT(error_of(copy), HasSubstr("gfx942 has no global_load_lds of 16 bytes"));
  EXPECT_THAT(error_of(copy, "gfx1100"), HasSubstr("gfx1100 has no __builtin_amdgcn_global_load_lds"));
  EXPECT_EQ(error_of(copy, "gfx950", 64), "");
}

TEST(HipFaults, AllLanesOfAWaveTakePart) {
  EXPECT_THAT(error_of("if (thread % 64 < 32) __builtin_amdgcn_ds_bpermute(0, 1);"),
              HasSubstr("take part in"));
  EXPECT_THAT(
      error_of(
          "if (thread % 2) __builtin_amdgcn_ds_bpermute(0, 1); else __builtin_amdgcn_ds_bpermute(0, 2);"),
      HasSubstr("the lanes of a warp are at different instructions"));
  EXPECT_THAT(error_of("if (thread % 64 < 32) __builtin_amdgcn_ds_bpermute(0, 1); BARRIER"),
              HasSubstr("the kernel hangs"));
  EXPECT_EQ(error_of("if (thread < 64) __builtin_amdgcn_ds_bpermute(0, 1); BARRIER"), "");
}

TEST(HipFaults, WavesAreWhole) {
  EXPECT_THAT(error_of("", "gfx942", 96), HasSubstr("96 threads are no whole warps of 64"));
  EXPECT_EQ(error_of("", "gfx1201", 96), "");
}

TEST(HipFaults, LdsHasAnEndAndVectorsAreAligned) {
  EXPECT_THAT(error_of("*LdsPointer<u32>(1024) = 1;"), HasSubstr("4 bytes at 1024 are outside"));
  EXPECT_THAT(error_of("typedef float Four __attribute__((vector_size(16))); *LdsPointer<Four>(8) = Four{};"),
              HasSubstr("16 bytes of LDS at 8, no multiple of 16"));
  EXPECT_THAT(HipKernel(test::kernel_source("int nothing;", ""), "gfx942").run({1, 64, 65540}, 0),
              HasSubstr("65540 bytes of LDS are more than the 65536 of gfx942"));
}

TEST(HipFaults, LdsAndVariablesBeginAsNotANumber) {
  std::vector<float> out(64);
  const HipKernel kernel(
      test::kernel_source("float* out;", "x.out[thread] = *LdsPointer<float>(4 * thread);"), "gfx942");
  ASSERT_EQ(kernel.run({1, 64, 256}, out.data()), "");
  EXPECT_THAT(out, testing::Each(testing::IsNan()));
}

TEST(HipFaults, ABarrierOrdersNothingWithoutFences) {
  const std::string write = "*LdsPointer<u32>(4 * thread) = thread;",
                    read = "x.memory[thread] = *LdsPointer<u32>(4 * (127 - thread));",
                    barrier = "__builtin_amdgcn_s_barrier();";
  EXPECT_EQ(error_of(write + "BARRIER " + read), "");
  EXPECT_THAT(error_of(write + barrier + "ACQUIRE " + read), HasSubstr("without a fence that releases"));
  EXPECT_THAT(error_of(write + "RELEASE " + barrier + read), HasSubstr("without a fence that acquires"));
}

/// Another block that acquires the release may read what any lane of this one wrote.
TEST(HipFaults, ABarrierBeforeAReleaseToOtherBlocksOrdersGlobalMemory) {
  const std::string count =
                        "__hip_atomic_fetch_add(x.memory, 1u, __ATOMIC_RELEASE, __HIP_MEMORY_SCOPE_AGENT);",
                    all =
                        "__builtin_amdgcn_fence(__ATOMIC_RELEASE, \"workgroup\");"
                        "__builtin_amdgcn_s_barrier(); ACQUIRE ";
  EXPECT_EQ(error_of(all + count), "");
  EXPECT_THAT(error_of("BARRIER " + count), HasSubstr("a barrier that orders LDS alone"));
}

/// A race is found by the order of the waves: what one has not written yet is NaN for the other.
TEST(HipFaults, AMissingBarrierGivesWrongNumbers) {
  std::vector<unsigned> out(128);
  const HipKernel kernel(test::kernel_source("u32* out;",
                                             "*LdsPointer<u32>(4 * thread) = 0;"
                                             "x.out[thread] = *LdsPointer<u32>(4 * (127 - thread));"),
                         "gfx942");
  ASSERT_EQ(kernel.run({1, 128, 512}, out.data()), "");
  EXPECT_THAT(out, testing::Contains(~0u));
}

/// A copy lands in lane order from one address on, when it is waited for.
TEST(HipFaults, ACopyToLdsIsThereWhenItIsWaitedFor) {
  std::vector<unsigned> memory(1024);
  for (unsigned i = 0; i < memory.size(); ++i) memory[i] = i;
  struct {
    unsigned *from, *out;
  } arguments{memory.data(), memory.data() + 512};
  const std::string
      copy =
          "u32 wave = __builtin_amdgcn_readfirstlane(thread / 64);"
          "__builtin_amdgcn_global_load_lds(x.from + (thread ^ 1), LdsPointer<void>(256 * wave), 4, 0, 0);",
      read = "x.out[thread] = *LdsPointer<u32>(4 * thread);";
  const auto run = [&](const std::string& body) {
    return HipKernel(test::kernel_source("u32 *from, *out;", body), "gfx942").run({1, 128, 512}, arguments);
  };
  ASSERT_EQ(run(copy + "RELEASE " + read), "");
  for (unsigned i = 0; i < 128; ++i) ASSERT_EQ(memory[512 + i], i ^ 1);
  ASSERT_EQ(run(copy + "__builtin_amdgcn_s_waitcnt(0xf70);" + read), "");  // vmcnt(0)
  EXPECT_EQ(memory[512], 1u);
  ASSERT_EQ(run(copy + read + "RELEASE"), "");
  EXPECT_EQ(memory[512], ~0u);
  EXPECT_THAT(run(copy), HasSubstr("the kernel ends before a copy to LDS"));
  EXPECT_THAT(
      run("__builtin_amdgcn_global_load_lds(x.from, LdsPointer<void>(4 * (thread % 2)), 4, 0, 0); RELEASE"),
      HasSubstr("copy to LDS from different addresses on"));
}

TEST(HipFaults, SharedVariablesAreOfTheBlock) {
  std::vector<unsigned> out(128);
  const HipKernel kernel(
      "typedef unsigned u32; __attribute__((device, always_inline)) inline u32 half(u32 shared) { return "
      "shared / 2; }\n" +
          test::kernel_source(
              "u32* out;",
              "extern __attribute__((shared, aligned(sizeof(u32) * 4))) unsigned char dynamic[];"
              "__attribute__((shared)) static u32 fixed[2][64];"
              "fixed[thread / 64][thread % 64] = thread; reinterpret_cast<u32*>(dynamic)[thread] = "
              "half(thread); BARRIER x.out[thread] = fixed[1 - thread / 64][thread % 64] + "
              "*LdsPointer<u32>(u32(LdsPointer<const void>(dynamic)) + 4 * (127 - thread));"),
      "gfx942");
  ASSERT_EQ(kernel.run({1, 128, 512}, out.data()), "");
  for (unsigned i = 0; i < 128; ++i) ASSERT_EQ(out[i], (i + 64) % 128 + (127 - i) / 2);
}

TEST(HipFaults, CodeForAnotherChipIsNotLoaded) {
  const std::string source = test::kernel_source("int nothing;", "");
  EXPECT_THAT(HipKernel(source, "gfx942", "gfx950").run({}, 0),
              HasSubstr("code for gfx942 does not run on gfx950"));
  EXPECT_EQ(HipKernel(source, "gfx9-4-generic", "gfx950").run({}, 0), "");
  EXPECT_EQ(HipKernel(source, "gfx11-generic", "gfx1100").run({}, 0), "");
}

}  // namespace
}  // namespace regard
