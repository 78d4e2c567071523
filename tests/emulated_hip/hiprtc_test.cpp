// hiprtc as a toolchain, by the one of the emulator.
#include "compile/hiprtc.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>

#include "base/elf.h"
#include "compile/test_memory.h"
#include "emulated_hip/kernel.h"

namespace regard {
namespace {

using test::Setting;
using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

/// This process has loaded it, so the system's loader finds it by its name.
Result<std::unique_ptr<Toolchain>> found(CompilerMemory* memory = nullptr) {
  const RtcLocation location{"the system's loader", ""};
  return find_hiprtc({&location, 1}, memory);
}

Result<Compiled> compiled(const std::string& body, const std::string& chip) {
  const Result<std::unique_ptr<Toolchain>> compiler = found();
  if (!compiler) return tl::unexpected(compiler.error());
  return (*compiler)->compile(
      {"kernel", test::kernel_source("u32* out;", body), {"-O3", "--offload-arch=" + chip}});
}

TEST(Hiprtc, CompilesAndReadsTheResources) {
  const Result<Compiled> made = compiled("x.out[thread] = thread;", "gfx942");
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_EQ(value_at<Elf64_Ehdr>(made->binary, 0)->e_machine, EM_AMDGPU);
  EXPECT_EQ(made->resources->matrix, 1);  // of the emulator's: it writes one
  EXPECT_EQ(made->log, "");
}

TEST(Hiprtc, IsWhatItsCodeObjectsSay) {
  TestMemory memory;
  const Result<std::unique_ptr<Toolchain>> compiler = found(&memory);
  ASSERT_TRUE(compiler) << compiler.error().message;
  EXPECT_THAT((*compiler)->name(), AllOf(StartsWith("hiprtc (/"), EndsWith("libhiprtc.so.6)")));
  EXPECT_THAT((*compiler)->identity(), StartsWith("hiprtc; GCC: "));
  EXPECT_THAT((*compiler)->identity(), HasSubstr("; emulated clang version 22.0.0 ("));
  ASSERT_EQ(memory.known.size(), 1U);
  memory.known.begin()->second = "clang version 23";
  EXPECT_EQ(found(&memory).value()->identity(), "hiprtc; clang version 23");
  const Setting more("HIPRTC_COMPILE_OPTIONS_APPEND", "-O1");
  EXPECT_EQ(found(&memory).value()->identity(),
            "hiprtc; clang version 23; HIPRTC_COMPILE_OPTIONS_APPEND=-O1");
}

TEST(Hiprtc, OfAnOldClangIsRefused) {
  const Setting old("EMULATED_CLANG", "18.0.0");
  EXPECT_THAT(found().error().message,
              AllOf(StartsWith("hiprtc in '/"),
                    HasSubstr("libhiprtc.so.6' uses clang 18, which is too old; install ROCm 6.4 or later, "
                              "or set REGARD_HIPRTC to its libhiprtc.so")));
}

TEST(Hiprtc, ThatDoesNotNameItsClangIsRefused) {
  const Setting none("EMULATED_CLANG", "");
  EXPECT_THAT(found().error().message, EndsWith("libhiprtc.so.6' does not say which build it is"));
}

TEST(Hiprtc, OfClang19DoesNotCompileForNewerChips) {
  const Setting old("EMULATED_CLANG", "19.0.0git");
  EXPECT_TRUE(compiled("", "gfx942"));
  for (const char* chip : {"gfx950", "gfx12-generic"})
    EXPECT_THAT(compiled("", chip).error().message,
                AllOf(StartsWith("hiprtc in '/"), HasSubstr("' uses clang 19, and kernels for " +
                                                            std::string(chip) + " need clang 20 or later")));
}

TEST(Hiprtc, AFailureHasTheOptionsTheLogAndTheKeptSource) {
  const std::string message = compiled("nonsense();", "gfx1100").error().message;
  EXPECT_THAT(message, AllOf(StartsWith("compiling kernel failed (HIPRTC_ERROR_COMPILATION); options: -O3 "
                                        "--offload-arch=gfx1100; the source is kept in '"),
                             HasSubstr("nonsense")));
  const std::string words = "the source is kept in '";
  const std::size_t start = message.find(words) + words.size();
  const std::filesystem::path kept = message.substr(start, message.find('\'', start) - start);
  EXPECT_EQ(kept.filename(), "kernel.hip");
  std::filesystem::remove_all(kept.parent_path());
}

}  // namespace
}  // namespace regard
