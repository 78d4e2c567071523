// The emulator itself: small kernels that are right, and that do what a GPU must not be asked for.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "compile/nvrtc_library.h"
#include "device/cuda_driver.h"
#include "emulated/device.h"

namespace regard {
namespace {

using cuda::driver;

struct Outcome {
  std::string error;
  std::vector<unsigned> numbers;
};

/// A kernel of 64 threads with this body, which writes to `out[64]`.
Outcome outcome_of(const std::string& body) {
  const NvrtcPlace place{"the emulator", EMULATED_NVRTC};
  const Result<NvrtcLibrary> nvrtc = open_nvrtc({&place, 1});
  if (!nvrtc) return {nvrtc.error().message, {}};
  const std::string source = "extern \"C\" __global__ void kernel(unsigned* out) {" + body + "}";
  NvrtcProgram program = nullptr;
  nvrtc->nvrtcCreateProgram(&program, source.c_str(), "kernel.cu", 0, nullptr, nullptr);
  const int compiled = nvrtc->nvrtcCompileProgram(program, 0, nullptr);
  std::size_t size = 0;
  nvrtc->nvrtcGetCUBINSize(program, &size);
  std::vector<char> code(size);
  nvrtc->nvrtcGetCUBIN(program, code.data());
  nvrtc->nvrtcDestroyProgram(&program);
  if (compiled != 0) return {"it does not compile", {}};

  const cuda::Driver& cuda = *driver();
  cuda::Context context = nullptr;
  cuda.retain_context(&context, 0);
  cuda.push_context(context);
  cuda::ModuleHandle module = nullptr;
  cuda::Function function = nullptr;
  cuda.load_module(&module, code.data());
  cuda.module_function(&function, module, "kernel");
  std::vector<unsigned> numbers(64);
  unsigned* out = numbers.data();
  void* parameters[] = {&out};
  cuda::LaunchConfiguration launch{{1, 1, 1}, {64, 1, 1}, 4096, nullptr, nullptr, 0};
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

/// A kernel that forgot its wait reads what was there before: not a number, in a memory that nobody wrote.
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

TEST(Emulator, AKernelThatHangsSaysWhere) {
  EXPECT_THAT(outcome_of("if (threadIdx.x < 32) __syncthreads();").error,
              testing::HasSubstr("the kernel hangs: 32 threads of warp 0 at __syncthreads"));
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
