// The emulator itself: small kernels that are correct, and small kernels that break a rule of the GPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "compile/nvrtc_library.h"
#include "device/cuda/driver.h"
#include "emulated/device.h"

namespace regard {
namespace {

using cuda::driver;

struct Outcome {
  std::string error;
  std::vector<unsigned> numbers;
};

/// A kernel with this body and number of threads, in which each thread writes a number to `out`.
Outcome outcome_of(const std::string& body, unsigned threads = 64) {
  const RtcLocation location{"the emulator", EMULATED_NVRTC};
  const Result<RtcLibrary> nvrtc = open_nvrtc({&location, 1});
  if (!nvrtc) return {nvrtc.error().message, {}};
  const std::string source = "extern \"C\" __global__ void kernel(unsigned* out) {" + body + "}";
  RtcHandle program = nullptr;
  nvrtc->create(&program, source.c_str(), "kernel.cu", 0, nullptr, nullptr);
  const int compiled = nvrtc->compile(program, 0, nullptr);
  std::size_t size = 0;
  nvrtc->code_size(program, &size);
  std::vector<char> code(size);
  nvrtc->code(program, code.data());
  nvrtc->destroy(&program);
  if (compiled != 0) return {"it does not compile", {}};

  const cuda::Driver& cuda = *driver();
  cuda::Context context = nullptr;
  cuda.retain_context(&context, 0);
  cuda.push_context(context);
  cuda::ModuleHandle module = nullptr;
  cuda::Function function = nullptr;
  if (cuda.load_module(&module, code.data()) != cuda::success ||
      cuda.module_function(&function, module, "kernel") != cuda::success)
    return {"it cannot be loaded", {}};
  std::vector<unsigned> numbers(threads);
  unsigned* out = numbers.data();
  void* parameters[] = {&out};
  cuda::LaunchConfiguration launch{{1, 1, 1}, {threads, 1, 1}, 16384, nullptr, nullptr, 0};
  const cuda::Code code_of_launch = cuda.launch(&launch, function, parameters, nullptr);
  cuda.pop_context(&context);
  if (code_of_launch == cuda::success) return {"", numbers};
  const char* text = nullptr;
  cuda.error_text(code_of_launch, &text);
  return {text, {}};
}

TEST(Emulator, ThreadsShareMemoryAndMeet) {
  const Outcome o = outcome_of(
      "extern __shared__ char dynamic[]; __shared__ unsigned sums[2];"
      "unsigned* all = reinterpret_cast<unsigned*>(dynamic);"
      "all[threadIdx.x] = threadIdx.x * threadIdx.x; __syncthreads();"
      "unsigned sum = __reduce_add_sync(~0u, all[63 - threadIdx.x]);"
      "if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = sum; __syncthreads();"
      "out[threadIdx.x] = sums[0] + sums[1];");
  ASSERT_EQ(o.error, "");
  EXPECT_THAT(o.numbers, testing::Each(63u * 64 * 127 / 6));
}

TEST(Emulator, InstructionsAreReadFromTheirText) {
  const Outcome o = outcome_of(
      "unsigned both; asm(\"{\\n .reg .b16 low, high;\\n cvt.rn.f16.f32 low, %1;\\n cvt.rn.f16.f32 high, "
      "%2;\\n\""
      "\" mov.b32 %0, {low, high};\\n}\" : \"=r\"(both) : \"f\"(1.0f), \"f\"(-2.0f)); out[threadIdx.x] = "
      "both;");
  ASSERT_EQ(o.error, "");
  EXPECT_THAT(o.numbers, testing::Each(0xc0003c00u));
}

/// A kernel that forgot to wait reads the previous contents: in memory that was never written, NaN.
TEST(Emulator, WhatIsNotWaitedForIsNotThere) {
  const std::string copy =
      "extern __shared__ __align__(16) unsigned char dynamic[];"
      "unsigned to = static_cast<unsigned>(__cvta_generic_to_shared(dynamic + 16 * threadIdx.x));"
      "asm volatile(\"cp.async.cg.shared.global [%0], [%1], 16, %2;\" ::\"r\"(to), \"l\"(out + threadIdx.x / "
      "4 * 4), \"r\"(16));";
  const std::string read = "out[threadIdx.x] = reinterpret_cast<unsigned*>(dynamic)[4 * threadIdx.x];";
  EXPECT_THAT(outcome_of(copy + read).numbers, testing::Each(~0u));
  const std::string wait =
      "asm volatile(\"cp.async.commit_group;\"); asm volatile(\"cp.async.wait_group %0;\" ::\"n\"(0));";
  EXPECT_THAT(outcome_of(copy + wait + "__syncthreads();" + read).numbers, testing::Each(0u));
}

/// 64 x 16 ones by 16 x 8 ones, so sums of 16: `before` and `behind` are put around the wait.
Outcome product(const std::string& before, const std::string& behind) {
  const std::string start =
      "extern __shared__ __align__(16) char dynamic[];"
      "unsigned from = static_cast<unsigned>(__cvta_generic_to_shared(dynamic));"
      "unsigned tile = (from + 1023) / 1024 * 1024;"
      "unsigned short* ones = reinterpret_cast<unsigned short*>(dynamic + (tile - from));"
      "for (int i = threadIdx.x; i < 64 * 64; i += 128) ones[i] = 0x3c00;"
      "float c[4] = {}; unsigned long long a = tile >> 4 | 1ull << 16 | 64ull << 32 | 1ull << 62;"
      "asm volatile(\"fence.proxy.async.shared::cta;\"); __syncthreads();"
      "asm volatile(\"wgmma.fence.sync.aligned;\");"
      "asm volatile(\"{\\n .reg .pred p;\\n setp.ne.b32 p, %6, 0;\\n "
      "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 "
      "{%0, %1, %2, %3}, %4, %5, p, 1, 1, 0, 0;\\n}\" : \"+f\"(c[0]), \"+f\"(c[1]), \"+f\"(c[2]), "
      "\"+f\"(c[3]) "
      ": \"l\"(a), \"l\"(a), \"r\"(1));"
      "asm volatile(\"wgmma.commit_group.sync.aligned;\");";
  const std::string wait = "asm volatile(\"wgmma.wait_group.sync.aligned %0;\" ::\"n\"(0));";
  return outcome_of(start + before + wait + behind, 128);
}

TEST(Emulator, AProductIsThereBehindItsWaitAndItsOperandsAreFree) {
  const std::string write = "out[threadIdx.x] = c[0];", spoil = "ones[threadIdx.x * 4] = 0;";
  int wrong_sums = 0, wrong_operands = 0;
  for (int number = 1; number <= 8; ++number) {
    const test::Seed seed(number);
    EXPECT_THAT(product("", write + spoil).numbers, testing::Each(16u));
    const auto right = testing::Matches(testing::Each(16u));
    wrong_sums += !right(product(write, "").numbers);
    wrong_operands += !right(product(spoil, write).numbers);
  }
  EXPECT_GT(wrong_sums, 0);
  EXPECT_GT(wrong_operands, 0);
}

TEST(Emulator, ABarrierMaySayNotYet) {
  const std::string wait_once =
      "__shared__ unsigned long long barrier; unsigned at = "
      "static_cast<unsigned>(__cvta_generic_to_shared(&barrier));"
      "if (threadIdx.x == 0) asm volatile(\"mbarrier.init.shared::cta.b64 [%0], %1;\" ::\"r\"(at), "
      "\"r\"(64));"
      "__syncthreads(); asm volatile(\"mbarrier.arrive.shared::cta.b64 _, [%0];\" ::\"r\"(at));"
      "unsigned done; asm volatile(\"{\\n .reg .pred p;\\n mbarrier.try_wait.parity.shared::cta.b64 p, [%1], "
      "%2;\\n "
      "mov.b32 %0, p;\\n}\" : \"=r\"(done) : \"r\"(at), \"r\"(0)); out[threadIdx.x] = done;";
  bool not_yet = false;
  for (int number = 1; number <= 8; ++number) {
    const test::Seed seed(number);
    const Outcome o = outcome_of(wait_once);
    ASSERT_EQ(o.error, "");
    not_yet |= testing::Matches(testing::Contains(0u))(o.numbers);
  }
  EXPECT_TRUE(not_yet);
}

TEST(Emulator, AChipHasItsOwnInstructionsOnly) {
  const std::string error =
      outcome_of("asm volatile(\"setmaxnreg.inc.sync.aligned.u32 %0;\" ::\"n\"(40));").error;
  if (test::emulated_target() == "sm_90a")
    EXPECT_EQ(error, "");
  else
    EXPECT_THAT(error, testing::HasSubstr(test::emulated_target() + " has no instruction 'setmaxnreg"));
}

TEST(Emulator, VectorsAreAligned) {
  EXPECT_THAT(
      outcome_of(
          "extern __shared__ __align__(16) char dynamic[]; unsigned at = static_cast<unsigned>("
          "__cvta_generic_to_shared(dynamic + 4)); asm volatile(\"st.shared.v4.b32 [%0], {%1, %1, %1, %1};\" "
          "::\"r\"(at), \"r\"(at));")
          .error,
      testing::HasSubstr("no multiple of 16"));
}

TEST(Emulator, AKernelThatHangsSaysWhere) {
  EXPECT_THAT(outcome_of("if (threadIdx.x < 32) __syncthreads();").error,
              testing::HasSubstr("the kernel hangs: 32 threads of warp 0 at __syncthreads"));
}
/// Each of two warps waits for what the other does only once it has waited: by barriers, and by numbers in
/// memory.
TEST(Emulator, AWaitInACircleIsFound) {
  EXPECT_THAT(outcome_of("if (threadIdx.x < 32) {"
                         "asm volatile(\"bar.sync %0, %1;\" ::\"r\"(1), \"r\"(64));"
                         "asm volatile(\"bar.arrive %0, %1;\" ::\"r\"(2), \"r\"(64)); } else {"
                         "asm volatile(\"bar.sync %0, %1;\" ::\"r\"(2), \"r\"(64));"
                         "asm volatile(\"bar.arrive %0, %1;\" ::\"r\"(1), \"r\"(64)); }")
                  .error,
              testing::HasSubstr("the kernel hangs: 32 threads of warp 0 at bar.sync"));
  EXPECT_THAT(outcome_of("if (threadIdx.x % 32 == 0) { unsigned own = threadIdx.x / 32, seen;"
                         "do asm volatile(\"ld.acquire.gpu.global.u32 %0, [%1];\" : \"=r\"(seen) : "
                         "\"l\"(out + 1 - own)); while (seen != 1);"
                         "asm volatile(\"red.release.gpu.global.add.u32 [%0], %1;\" ::\"l\"(out + own), "
                         "\"r\"(1)); }")
                  .error,
              testing::HasSubstr("the kernel does not end"));
}
TEST(Emulator, LanesThatPartCannotMeet) {
  EXPECT_THAT(outcome_of("if (threadIdx.x % 2) __syncwarp(); else __any_sync(~0u, true);").error,
              testing::HasSubstr("the lanes of a warp are at different instructions"));
}
TEST(Emulator, SharedMemoryHasAnEnd) {
  EXPECT_THAT(
      outcome_of(
          "unsigned at = 1 << 20; asm volatile(\"st.shared.v4.b32 [%0], {%1, %1, %1, %1};\" ::\"r\"(at), "
          "\"r\"(at));")
          .error,
      testing::HasSubstr("outside of shared memory"));
}
TEST(Emulator, AnInstructionThatIsNotKnownIsNamed) {
  EXPECT_THAT(outcome_of("asm volatile(\"nanosleep.u32 %0;\" ::\"r\"(1));").error,
              testing::HasSubstr("the emulator does not know the instruction 'nanosleep.u32'"));
}

}  // namespace
}  // namespace regard
