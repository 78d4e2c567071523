#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "compile/host_options.h"
#include "compile/toolchain.h"
#include "device/cpu/cpu.h"
#include "kernels/arguments.h"
#include "support/temporary_folder.h"

namespace regard::cpu {
namespace {

using testing::HasSubstr;

// A kernel that writes `value`, and counts its calls in statics that have the same names in every module.
std::vector<std::byte> kernel_that_writes(int value) {
  const std::string source =
      "inline int& calls() { static int count = 0; return count; }\n"
      "template <class T> struct Shared { static inline T value = 0; };\n"
      "extern \"C\" __attribute__((visibility(\"default\"))) void kernel(const void*, long long, void* out) "
      "{\n"
      "  int* o = static_cast<int*>(out);\n"
      "  o[0] = " +
      std::to_string(value) + "; o[1] = ++calls(); o[2] = ++Shared<int>::value;\n}\n";
  const Result<Toolchain*> toolchain = toolchain_for(Target{});
  if (!toolchain) throw std::runtime_error(toolchain.error().message);
  const Result<Compiled> compiled =
      (*toolchain)->compile({"kernel", source, {host_options.begin(), host_options.end()}});
  if (!compiled) throw std::runtime_error(compiled.error().message);
  return compiled->binary;
}

const std::vector<std::byte>& first_binary() {
  static const std::vector<std::byte> binary = kernel_that_writes(100);
  return binary;
}

std::array<int, 3> call(const Module& module) {
  std::array<int, 3> out{};
  const Arguments arguments{};
  module.function()(&arguments, 0, out.data());
  return out;
}

std::ptrdiff_t open_files() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
}
bool mapped() {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find("memfd:kernel") != std::string::npos) return true;
  }
  return false;
}

TEST(Load, RunsExactlyTheseBytes) {
  const auto module = load(first_binary(), "kernel");
  ASSERT_TRUE(module) << module.error().message;
  EXPECT_EQ(call(**module)[0], 100);
}

TEST(Load, ModulesWithTheSameNamesInsideAreApart) {
  std::vector<std::shared_ptr<Module>> modules;
  for (int value = 0; value < 6; ++value) {
    const auto module = load(kernel_that_writes(value), "kernel");
    ASSERT_TRUE(module) << module.error().message;
    modules.push_back(*module);
  }
  for (int round = 1; round <= 2; ++round) {
    for (int value = 0; value < 6; ++value) {
      EXPECT_EQ(call(*modules[static_cast<std::size_t>(value)]), (std::array{value, round, round}));
    }
  }
}

TEST(Load, TheSameBytesTwiceAreTwoModules) {
  const auto one = load(first_binary(), "kernel"), two = load(first_binary(), "kernel");
  ASSERT_TRUE(one && two);
  EXPECT_EQ(call(**one)[1], 1);
  EXPECT_EQ(call(**two)[1], 1);
}

TEST(Load, ALoadedModuleHoldsNoFileAndUnloadsWithItsLastReference) {
  ASSERT_FALSE(mapped());
  const std::ptrdiff_t before = open_files();
  auto module = load(first_binary(), "kernel");
  ASSERT_TRUE(module);
  EXPECT_EQ(open_files(), before);
  EXPECT_TRUE(mapped());
  std::shared_ptr<Module> other = *module;
  *module = nullptr;
  EXPECT_EQ(call(*other)[0], 100);
  other = nullptr;
  EXPECT_FALSE(mapped());
}

// Makes memfd_create fail in this process from now on, as some sandboxes do.
void forbid_memory_files() {
  sock_filter steps[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_memfd_create, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program{std::size(steps), steps};
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) _exit(77);
}

TEST(Load, TakesATemporaryFileWhereFilesInMemoryAreForbidden) {
  const TemporaryFolder folder;
  first_binary();
  const pid_t child = fork();
  if (child == 0) {
    forbid_memory_files();
    setenv("TMPDIR", folder.path().c_str(), 1);
    const auto module = load(first_binary(), "kernel");
    if (!module || call(**module)[0] != 100) _exit(1);
    _exit(std::filesystem::is_empty(folder.path()) ? 0 : 2);
  }
  int status = 0;
  waitpid(child, &status, 0);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "no seccomp here";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(Load, AFileSizeLimitIsAnErrorAndNoSignal) {
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit small{1000, before.rlim_max};
  first_binary();
  setrlimit(RLIMIT_FSIZE, &small);
  const auto module = load(first_binary(), "kernel");
  setrlimit(RLIMIT_FSIZE, &before);
  ASSERT_FALSE(module);
  EXPECT_THAT(module.error().message, HasSubstr("a file in memory: File too large"));
  EXPECT_THAT(module.error().message, HasSubstr("a temporary file"));
}

TEST(Load, RefusesAMissingSymbol) {
  const auto module = load(first_binary(), "other");
  ASSERT_FALSE(module);
  EXPECT_EQ(module.error().message, "the binary of kernel 'other' has no symbol of that name");
  EXPECT_FALSE(mapped());
}

TEST(Load, RefusesWhatIsNoSharedObjectOfThisMachine) {
  const auto reason = [](std::vector<std::byte> bytes) {
    const auto module = load(bytes, "kernel");
    return module ? "loaded" : module.error().message;
  };
  std::vector<std::byte> foreign = first_binary();
  foreign[18] = std::byte{0x08};  // MIPS
  EXPECT_THAT(reason({}), HasSubstr("too short"));
  EXPECT_THAT(reason(std::vector<std::byte>(5000)), HasSubstr("not an ELF file"));
  EXPECT_THAT(reason(foreign), HasSubstr("another machine"));
}

TEST(Load, ATruncatedBinaryIsRefusedAndDoesNotKillTheProcess) {
  const std::vector<std::byte>& whole = first_binary();
  for (std::size_t length = 0; length < whole.size(); length += 97) {
    const auto module = load(std::span(whole).first(length), "kernel");
    if (module) {
      EXPECT_EQ(call(**module)[0], 100) << length;  // only section headers are missing
    }
  }
}

}  // namespace
}  // namespace regard::cpu
