// These tests use the real NVRTC.
#include "compile/nvrtc.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <thread>

#include "base/interruption.h"
#include "compile/test_memory.h"
#include "compile/test_nvrtc.h"
#include "plan/plan.h"
#include "plan/target.h"
#include "support/temporary_folder.h"

namespace regard {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;

const char* const doubling =
    "extern \"C\" __global__ void doubling(float* x) { x[threadIdx.x] = x[threadIdx.x] * 2.f; }\n";

CompileRequest request(const std::string& source, const std::string& architecture = "sm_90a") {
  return {"kernel", source, {"--gpu-architecture=" + architecture, "-std=c++20"}};
}

TEST(Nvrtc, CompilesMachineCodeForEveryCudaTarget) {
  const std::unique_ptr<Toolchain> compiler = test_toolchain();
  int compiled = 0;
  for (const Target& target : targets().value()) {
    if (target.kind != TargetKind::cuda) continue;
    const Result<Compiled> result = compiler->compile({"kernel", doubling, target.options});
    ASSERT_TRUE(result) << target.name << ": " << result.error().message;
    ASSERT_GE(result->binary.size(), 4u);
    EXPECT_EQ(std::string(reinterpret_cast<const char*>(result->binary.data()), 4),
              "\x7f"
              "ELF")
        << target.name;
    ++compiled;
  }
  EXPECT_GE(compiled, 7);
}

TEST(Nvrtc, ReportsWhatTheKernelTakes) {
  const std::unique_ptr<Toolchain> compiler = test_toolchain();
  const Result<Compiled> plain = compiler->compile(request(doubling));
  ASSERT_TRUE(plain) << plain.error().message;
  ASSERT_TRUE(plain->resources);
  EXPECT_GT(plain->resources->registers, 0);
  EXPECT_FALSE(plain->resources->spills());
  EXPECT_EQ(plain->resources->stack_bytes, 0);
  EXPECT_THAT(plain->resources->performance_warnings, IsEmpty());

  // 300 values that are live at once do not fit into a thread's 255 registers.
  const Result<Compiled> crowded = compiler->compile(
      request("extern \"C\" __global__ void crowded(float* x) {\n"
              "  float v[300];\n"
              "#pragma unroll\n  for (int i = 0; i < 300; ++i) v[i] = x[i * 32 + threadIdx.x];\n"
              "  __syncthreads();\n"
              "#pragma unroll\n  for (int i = 0; i < 300; ++i) x[i * 33 + threadIdx.x] = v[299 - i];\n}\n"));
  ASSERT_TRUE(crowded) << crowded.error().message;
  EXPECT_TRUE(crowded->resources->spills());

  const Result<Compiled> shared = compiler->compile(
      request("extern \"C\" __global__ void shared(float* x) { __shared__ float s[512]; s[threadIdx.x] = *x; "
              "__syncthreads(); *x = s[511 - threadIdx.x]; }\n"));
  ASSERT_TRUE(shared) << shared.error().message;
  EXPECT_EQ(shared->resources->shared_bytes, 2048);
}

TEST(Nvrtc, TheSameSourceGivesTheSameBytes) {
  const std::unique_ptr<Toolchain> compiler = test_toolchain();
  const Result<Compiled> first = compiler->compile(request(doubling)),
                         second = compiler->compile(request(doubling));
  ASSERT_TRUE(first && second);
  EXPECT_EQ(first->binary, second->binary);
  const Result<Compiled> other = compiler->compile(request(doubling, "sm_80"));
  ASSERT_TRUE(other);
  EXPECT_NE(first->binary, other->binary);
}

TEST(Nvrtc, ThreadsCompileAtOnce) {
  const std::unique_ptr<Toolchain> compiler = test_toolchain();
  const std::vector<std::byte> expected = compiler->compile(request(doubling)).value().binary;
  std::atomic<int> right{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      const Result<Compiled> result = compiler->compile(request(doubling));
      right += result && result->binary == expected;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, 4);
}

TEST(Nvrtc, CanBeInterruptedWhileItCompiles) {
  const std::unique_ptr<Toolchain> compiler = test_toolchain();
  static std::atomic<int> asked;
  asked = 0;
  ask_whether_interrupted([] { return static_cast<int>(++asked > 2); });  // twice before NVRTC starts
  const Result<Compiled> ended = compiler->compile(request(doubling));
  ask_whether_interrupted(nullptr);
  EXPECT_TRUE(is_interrupted(ended));
  EXPECT_GT(asked, 2);
  EXPECT_TRUE(compiler->compile(request(doubling)));
}

TEST(Nvrtc, IsNotIdentifiedInAnotherWayAfterAnInterruption) {
  static std::atomic<int> asked;
  asked = 0;
  ask_whether_interrupted([] { return static_cast<int>(++asked == 1); });
  const Result<std::unique_ptr<Toolchain>> made = make_nvrtc(test_nvrtc());
  ask_whether_interrupted(nullptr);
  EXPECT_TRUE(is_interrupted(made));
}

// Python has such a lock, and holds it while it forks.
TEST(Nvrtc, AForkUnderALockOfTheHostWaitsForNoCompileThatAsksUnderThatLock) {
  static std::timed_mutex host;
  static std::atomic<bool> given_up;
  given_up = false;
  ask_whether_interrupted([] {
    if (host.try_lock_for(std::chrono::seconds(5)))
      host.unlock();
    else
      given_up = true;
    return 0;
  });
  const std::unique_ptr<Toolchain> compiler = test_toolchain();
  std::atomic<bool> over{false};
  std::thread forks([&] {
    while (!over) {
      {
        const std::lock_guard lock(host);
        std::this_thread::sleep_for(std::chrono::milliseconds(20));  // so that the compile gets to ask
        const pid_t child = fork();
        if (child == 0) _exit(0);
        waitpid(child, nullptr, 0);
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  });
  const Result<Compiled> compiled = compiler->compile(request(doubling));
  over = true;
  forks.join();
  ask_whether_interrupted(nullptr);
  EXPECT_TRUE(compiled) << compiled.error().message;
  EXPECT_FALSE(given_up) << "the compile waited for the lock, and the lock's holder for the compile";
}

TEST(Nvrtc, IdentityNamesTheBuildAndNoPath) {
  const std::string identity = test_toolchain()->identity();
  EXPECT_THAT(identity, AllOf(HasSubstr("NVRTC release "), HasSubstr("CL-")));
  EXPECT_EQ(identity.find('/'), std::string::npos) << identity;
  EXPECT_EQ(nvrtc_identity("// Compiler Build ID: CL-1\n// Cuda compilation tools, release 9.9, V9.9.1\n"),
            "NVRTC release 9.9, V9.9.1; CL-1");
  EXPECT_EQ(nvrtc_identity("// nothing of the kind\n"), "");
}

// Asking NVRTC for its identity takes ten times as long as loading a kernel from the cache.
TEST(Nvrtc, IsIdentifiedOnceWhileItsFileIsTheSame) {
  RtcLibrary library = test_nvrtc();
  const TemporaryFolder folder;
  library.path = folder.path() + "/libnvrtc.so";
  const auto put_there = [&] {
    fs::copy_file("/bin/true", library.path, fs::copy_options::overwrite_existing);
  };
  put_there();  // only its file's state matters

  TestMemory memory;
  const std::string identity = make_nvrtc(library, &memory).value()->identity();
  ASSERT_EQ(memory.known.size(), 1u);
  memory.known.begin()->second = "NVRTC as it was";
  EXPECT_THAT(make_nvrtc(library, &memory).value()->identity(), testing::StartsWith("NVRTC as it was; "));
  fs::remove(library.path);
  put_there();
  EXPECT_EQ(make_nvrtc(library, &memory).value()->identity(), identity);
  EXPECT_EQ(memory.known.size(), 2u);
  EXPECT_EQ(make_nvrtc(library).value()->identity(), identity);
}

TEST(Nvrtc, AFailureHasTheLogTheOptionsAndTheKeptSource) {
  const std::unique_ptr<Toolchain> compiler = test_toolchain();
  const Result<Compiled> result =
      compiler->compile(request("extern \"C\" __global__ void wrong() { nonsense; }\n"));
  ASSERT_FALSE(result);
  const std::string& message = result.error().message;
  EXPECT_THAT(message, AllOf(HasSubstr("NVRTC_ERROR_COMPILATION"), HasSubstr("\"nonsense\" is undefined"),
                             HasSubstr("--gpu-architecture=sm_90a")));
  const std::string words = "the source is kept in '";
  const std::size_t start = message.find(words) + words.size();
  const fs::path kept = message.substr(start, message.find('\'', start) - start);
  std::ifstream file(kept);
  const std::string source(std::istreambuf_iterator<char>(file), {});
  EXPECT_THAT(source, HasSubstr("nonsense"));
  fs::remove_all(kept.parent_path());
}

TEST(Nvrtc, IsSearchedInOrderAndTheSettingReplacesAllPlaces) {
  const auto paths = [](const std::vector<RtcLocation>& locations) {
    std::vector<std::string> list;
    for (const RtcLocation& location : locations) list.push_back(location.path);
    return list;
  };
  const std::vector<std::string> packages = {"/site-packages"};
  EXPECT_THAT(paths(nvrtc_locations("", packages, "/cuda")),
              testing::ElementsAre("/site-packages/nvidia/cu13/lib", "/site-packages/nvidia/cuda_nvrtc/lib",
                                   "/cuda/lib64", "/cuda/lib", ""));
  EXPECT_THAT(paths(nvrtc_locations("/mine.so", packages, "/cuda")), testing::ElementsAre("/mine.so"));
}

/// A folder with files under NVRTC's name in subfolders: links to the real one, or files that are no library.
class NvrtcFolders : public testing::Test {
 protected:
  void put(const std::string& inside, bool real) const {
    const fs::path library = folder_ / inside / "libnvrtc.so.13";
    fs::create_directories(library.parent_path());
    fs::remove(library);
    real ? fs::create_symlink(fs::absolute(test_nvrtc().path), library)
         : (void)(std::ofstream(library) << "no library");
  }
  /// The message of a failed search; empty if NVRTC was found.
  std::string search(const std::string& setting, bool home = true) const {
    const std::vector<std::string> packages = {folder_ / "site-packages"};
    const Result<RtcLibrary> found =
        open_nvrtc(nvrtc_locations(setting, packages, home ? (folder_ / "cuda").string() : ""));
    return found ? "" : found.error().message;
  }
  const TemporaryFolder own_;
  const fs::path folder_ = own_.path();
};

TEST_F(NvrtcFolders, OneAfterTheOtherUntilOneOpens) {
  for (const char* inside : {"site-packages/nvidia/cu13/lib", "site-packages/nvidia/cuda_nvrtc/lib",
                             "cuda/lib64", "cuda/lib", "mine"}) {
    put(inside, false);
  }
  const std::string mine = folder_ / "mine";
  EXPECT_THAT(search(mine), AllOf(HasSubstr("REGARD_NVRTC '" + mine + "' ("), HasSubstr("it is too short")));
  EXPECT_EQ(search(mine).find("CUDA_HOME '"), std::string::npos);
  put("mine", true);
  EXPECT_EQ(search(mine), "");
  EXPECT_EQ(search(mine + "/libnvrtc.so.13"), "");
  for (const char* inside :
       {"site-packages/nvidia/cu13/lib", "site-packages/nvidia/cuda_nvrtc/lib", "cuda/lib64", "cuda/lib"}) {
    put(inside, true);
    EXPECT_EQ(search(""), "") << inside;
    put(inside, false);
  }
  // The loader finds an already open library by its name.
  const RtcLibrary open = test_nvrtc();
  EXPECT_EQ(search("", false), "");
}

/// The loader crashes on a library that is shorter than its headers say.
TEST_F(NvrtcFolders, ATruncatedLibraryIsASentence) {
  const std::string mine = folder_ / "mine";
  put("mine", true);
  const auto put_start_of = [&](const fs::path& whole) {
    std::vector<char> start(1 << 16);
    std::ifstream(whole, std::ios::binary).read(start.data(), static_cast<std::streamsize>(start.size()));
    fs::remove(fs::path(mine) / whole.filename());
    std::ofstream(fs::path(mine) / whole.filename(), std::ios::binary)
        .write(start.data(), static_cast<std::streamsize>(start.size()));
  };
  const fs::path real = test_nvrtc().path;
  for (const fs::directory_entry& file : fs::directory_iterator(real.parent_path())) {
    if (file.path().filename().string().starts_with("libnvrtc-builtins.so")) put_start_of(file.path());
  }
  EXPECT_THAT(search(mine), AllOf(HasSubstr("/libnvrtc-builtins.so."), HasSubstr(": it is truncated)")));
  for (const fs::directory_entry& file : fs::directory_iterator(mine)) fs::remove(file.path());
  put_start_of(real);
  EXPECT_THAT(search(mine), HasSubstr("/mine/libnvrtc.so.13: it is truncated)"));
}

TEST_F(NvrtcFolders, WhatIsNotThereIsOneSentenceWithAllPlaces) {
  const TemporaryFolder folder;
  const std::string none = folder.path() + "/none";
  const std::string message = [&none] {
    const Result<RtcLibrary> missing = open_nvrtc(
        std::vector<RtcLocation>{{"the Python package nvidia-cuda-nvrtc", none}, {"CUDA_HOME", "/proc/sys"}});
    return missing ? "" : missing.error().message;
  }();
  EXPECT_THAT(message,
              AllOf(HasSubstr("searched the Python package nvidia-cuda-nvrtc '" + none + "' (" + none),
                    HasSubstr("; CUDA_HOME '/proc/sys' (none there); install it with 'pip install "
                              "nvidia-cuda-nvrtc'")));
  // A library other than NVRTC.
  EXPECT_THAT(search("libm.so.6"), HasSubstr("has no function nvrtcGetErrorString"));
}

TEST(PtxasLog, IsReadLineByLine) {
  const Result<Resources> read = parse_ptxas_log(
      "ptxas info    : 0 bytes gmem\n"
      "ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized\n"
      "ptxas info    : Compiling entry function 'k' for 'sm_90a'\n"
      "ptxas info    : Function properties for k\n"
      "ptxas         .     16 bytes stack frame, 8 bytes spill stores, 12 bytes spill loads\n"
      "ptxas info    : Used 168 registers, used 2 barriers, 1024 bytes smem, 400 bytes cmem[0]\n");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->registers, 168);
  EXPECT_EQ(read->stack_bytes, 16);
  EXPECT_EQ(read->spill_store_bytes, 8);
  EXPECT_EQ(read->spill_load_bytes, 12);
  EXPECT_EQ(read->shared_bytes, 1024);
  EXPECT_EQ(read->barriers, 2);
  EXPECT_THAT(read->performance_warnings, testing::ElementsAre(HasSubstr("C7510")));
  EXPECT_FALSE(parse_ptxas_log("nothing of a kernel"));
}

TEST(Resources, FitUpToTheLastRegisterAndByte) {
  const Target& target = **find_target("sm_90a");
  const Result<Plan> planned = plan(*parse("fwd bf16 b=1 h=1 s=4096 d=128"), target, {});
  ASSERT_TRUE(planned);
  const Stage& stage = planned->stages.front();
  const auto verdict = [&](std::int64_t registers, std::int64_t shared_bytes) {
    const Status status = fits({.registers = registers, .shared_bytes = shared_bytes}, stage.key, target);
    return status ? "" : status.error().message;
  };
  const std::int64_t left = target.shared_memory - stage.shared_bytes;
  EXPECT_EQ(stage.key.algorithm.warps, 12);
  EXPECT_EQ(verdict(168, left), "");
  EXPECT_THAT(verdict(169, 0),
              HasSubstr("' can never run on sm_90a: 384 threads of 169 registers need 67584, "
                        "and there are 65536"));
  EXPECT_THAT(verdict(168, left + 1), HasSubstr("232449 in all, of 232448"));
}

// From the makers' documents: allocation in units of 8 registers of 512, and on RDNA of 24 of 1536.
TEST(Resources, WavesPerSimdFollowFromRegisters) {
  const auto waves = [](std::int64_t registers, std::string_view name) {
    return waves_per_simd(registers, **find_target(name));
  };
  EXPECT_EQ(waves(168, "sm_90a"), 3);
  EXPECT_EQ(waves(169, "sm_90a"), 2);
  EXPECT_EQ(waves(128, "gfx942"), 4);
  EXPECT_EQ(waves(256, "gfx942"), 2);
  EXPECT_EQ(waves(257, "gfx942"), 1);
  EXPECT_EQ(waves(256, "gfx1100"), 5);
  EXPECT_EQ(waves(168, "gfx1201"), 9);
  EXPECT_EQ(waves(128, "gfx1201"), 10);
  EXPECT_EQ(waves(128, "gfx11-generic"), 8);
}

}  // namespace
}  // namespace regard
