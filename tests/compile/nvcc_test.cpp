// Uses the real nvcc if there is one; the tests of the search and of its messages need none.
#include "compile/nvcc.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "compile/render.h"
#include "compile/test_nvrtc.h"
#include "support/temporary_folder.h"

namespace regard {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

std::unique_ptr<Toolchain> real_nvcc() {
  Result<std::unique_ptr<Toolchain>> found = find_nvcc("", std::getenv("PATH"));
  return found ? std::move(*found) : nullptr;
}

constexpr const char* version =
    "nvcc: NVIDIA (R) Cuda compiler driver\nCuda compilation tools, release 13.0, V13.0.88\n"
    "Build cuda_13.0.r13.0/compiler.36424714_0\n";

TEST(Nvcc, IdentityNamesTheBuild) {
  EXPECT_EQ(nvcc_identity(version), "nvcc release 13.0, V13.0.88; Build cuda_13.0.r13.0/compiler.36424714_0");
  EXPECT_EQ(nvcc_identity("nvcc: command not found"), "");
}

void remove_kept_source(const std::string& message) {
  const std::string words = "the source is kept in '";
  const std::size_t start = message.find(words) + words.size();
  fs::remove_all(fs::path(message.substr(start, message.find('\'', start) - start)).parent_path());
}

class NvccPlaces : public testing::Test {
 protected:
  /// Puts a program there that prints `says` and then runs `then`.
  void put(const std::string& inside, const std::string& says, const std::string& then = "") const {
    const fs::path program = folder_ / inside / "nvcc";
    fs::create_directories(program.parent_path());
    std::ofstream(program) << "#!/bin/sh\ncat <<'end'\n" << says << "end\n" << then << "\n";
    fs::permissions(program, fs::perms::owner_all);
  }
  std::string found() const {
    const Result<std::unique_ptr<Toolchain>> nvcc = find_nvcc(folder_ / "cuda", folder_ / "path");
    return nvcc ? (*nvcc)->name() : nvcc.error().message;
  }
  const TemporaryFolder own_;
  const fs::path folder_ = own_.path();
};

TEST_F(NvccPlaces, CudaHomeComesBeforeThePath) {
  EXPECT_THAT(found(), AllOf(HasSubstr("no nvcc either: searched CUDA_HOME '"), HasSubstr("PATH (")));
  put("path", version);
  EXPECT_EQ(found(), "nvcc (" + (folder_ / "path/nvcc").string() + ")");
  put("cuda/bin", version);
  EXPECT_EQ(found(), "nvcc (" + (folder_ / "cuda/bin/nvcc").string() + ")");
  put("cuda/bin", "something else\n");
  EXPECT_EQ(found(), "nvcc (" + (folder_ / "path/nvcc").string() + ")");
  put("path", "something else\n");
  EXPECT_THAT(found(), HasSubstr("/path/nvcc --version' does not say which build it is"));
}

TEST_F(NvccPlaces, OptionsInTheEnvironmentAreNotTaken) {
  for (const char* name : {"NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS"}) setenv(name, "--use_fast_math", 1);
  // The compile fails, because a failure shows the compiler's output.
  put("path", version, "echo \"with [$NVCC_PREPEND_FLAGS|$NVCC_APPEND_FLAGS]\"; [ $1 = --version ]");
  const Result<std::unique_ptr<Toolchain>> nvcc = find_nvcc("", folder_ / "path");
  ASSERT_TRUE(nvcc) << nvcc.error().message;
  const Result<Compiled> result = (*nvcc)->compile({"none", "", {"--gpu-architecture=sm_90a"}});
  for (const char* name : {"NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS"}) unsetenv(name);
  ASSERT_FALSE(result);
  EXPECT_THAT(result.error().message, HasSubstr("with [|]"));
  remove_kept_source(result.error().message);
}

TEST(Nvcc, GivesTheKernelsOfNvrtc) {
  const std::unique_ptr<Toolchain> nvcc = real_nvcc();
  if (nvcc == nullptr) GTEST_SKIP() << "there is no nvcc on PATH";
  const std::unique_ptr<Toolchain> nvrtc = test_toolchain();
  for (const char* text : {"sm_90a sm90_forward block_q=128 block_k=128 warps=12 warp_groups=2 stages=3 | "
                           "fwd bf16 d=64 mask=window",
                           "sm_80 portable_forward block_q=64 block_k=64 warps=4 stages=1 | fwd fp16 d=64",
                           "sm_80 portable_combine block_dv=32 warps=4 | fwd bf16"}) {
    const Result<KernelKey> key = parse_kernel_key(text);
    ASSERT_TRUE(key) << key.error().message;
    const Result<Rendered> rendered = render(*key);
    ASSERT_TRUE(rendered) << rendered.error().message;
    const CompileRequest request{rendered->symbol, rendered->source, rendered->options};
    const Result<Compiled> compiled = nvcc->compile(request), expected = nvrtc->compile(request);
    ASSERT_TRUE(compiled) << text << compiled.error().message;
    ASSERT_TRUE(expected) << text << expected.error().message;
    EXPECT_EQ(nvcc->compile(request).value().binary, compiled->binary) << text;
    EXPECT_FALSE(compiled->resources->spills()) << text << compiled->log;
    EXPECT_EQ(compiled->resources->stack_bytes, 0) << text;
    EXPECT_EQ(compiled->resources->matrix, expected->resources->matrix) << text;
    EXPECT_EQ(compiled->resources->shared_bytes, expected->resources->shared_bytes) << text;
    const std::string binary(reinterpret_cast<const char*>(compiled->binary.data()), compiled->binary.size());
    EXPECT_TRUE(
        binary.starts_with("\x7f"
                           "ELF"))
        << text;
    EXPECT_THAT(binary, HasSubstr(rendered->symbol)) << text;
  }
}

TEST(Nvcc, AFailureHasTheCommandTheLogAndTheKeptSource) {
  const std::unique_ptr<Toolchain> nvcc = real_nvcc();
  if (nvcc == nullptr) GTEST_SKIP() << "there is no nvcc on PATH";
  const Result<Compiled> result =
      nvcc->compile({"wrong", "__global__ void wrong() { nonsense; }\n", {"--gpu-architecture=sm_90a"}});
  ASSERT_FALSE(result);
  const std::string& message = result.error().message;
  EXPECT_THAT(message, AllOf(HasSubstr("exit code"), HasSubstr("-cubin"), HasSubstr("nonsense"),
                             HasSubstr("the source is kept in '")));
  remove_kept_source(message);
}

}  // namespace
}  // namespace regard
