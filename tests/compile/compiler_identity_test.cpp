// A compiler's identity is asked for once and remembered while its file stays the same, but only if the
// program answers for itself, not for another one.
#include "compile/compiler_identity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "compile/compiler_run.h"
#include "compile/process.h"
#include "compile/test_memory.h"
#include "support/temporary_folder.h"

namespace regard {
namespace {

namespace fs = std::filesystem;

class RememberedCompiler : public testing::Test {
 protected:
  /// Makes a program that answers `-v` like clang or g++, and counts how often it was asked.
  std::string make(const std::string& version, const std::string& more) {
    const std::string path = folder_ + "/clang++", source = folder_ + "/clang.cpp";
    std::ofstream(source) << "#include <stdio.h>\nint main() {\n  FILE* f = fopen(R\"(" << folder_
                          << "/asked)\", \"a\");\n  fputc('x', f);\n  fclose(f);\n  fputs(R\"(fake version "
                          << version << "\nTarget: here\n"
                          << more << ")\", stderr);\n}\n";
    const auto made = run_process({"/usr/bin/env", "c++", "-o", path + ".new", source}, folder_,
                                  {.environment = {std::string("PATH=") + std::getenv("PATH")}});
    EXPECT_TRUE(made && made->succeeded) << (made ? made->output : made.error().message);
    fs::rename(path + ".new", path);
    return path;
  }
  std::string installed_here() const { return "InstalledDir: " + folder_ + "\n"; }
  std::string called_as(const std::string& path) const { return "COLLECT_GCC=" + path + "\n"; }
  std::string identity(const std::string& program) {
    const Result<CompilerAnswer> answer = identify_compiler(program, &memory_);
    return answer ? answer->identity : answer.error().message;
  }
  std::uintmax_t asked() const {
    std::error_code none;
    const std::uintmax_t size = fs::file_size(folder_ + "/asked", none);
    return none ? 0 : size;
  }

  const TemporaryFolder own_;
  const std::string& folder_ = own_.path();
  TestMemory memory_;
};

TEST_F(RememberedCompiler, HoldsUntilTheCompilerIsReplaced) {
  const std::string program = make("1.0", installed_here());
  for (int i = 0; i < 3; ++i) EXPECT_EQ(identity(program), "fake version 1.0; Target: here");
  EXPECT_EQ(asked(), 1u);
  make("1.1", installed_here());  // a file of the same size
  for (int i = 0; i < 3; ++i) EXPECT_EQ(identity(program), "fake version 1.1; Target: here");
  EXPECT_EQ(asked(), 2u);
  fs::last_write_time(program, fs::last_write_time(program) + std::chrono::seconds(1));
  EXPECT_EQ(identity(program), "fake version 1.1; Target: here");
  EXPECT_EQ(asked(), 3u);
}

TEST_F(RememberedCompiler, GccReportsTheNameItWasCalledBy) {
  const std::string program = make("1.0", called_as(folder_ + "/clang++"));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(identity(program), "fake version 1.0; Target: here");
  EXPECT_EQ(asked(), 1u);
  const std::string real = find_program("g++", std::getenv("PATH"));
  std::error_code none;
  const std::string file = fs::canonical(real, none).filename();
  if (!file.ends_with("g++") && file.find("g++-") == std::string::npos) {
    GTEST_SKIP() << "no g++ here, or a wrapper such as ccache";
  }
  EXPECT_THAT(identity(real), testing::StartsWith("gcc version "));
  EXPECT_EQ(memory_.known.size(), 2u);
}

TEST_F(RememberedCompiler, AFileThatWasWrittenToWithItsDateSetBackIsAskedAgain) {
  const std::string program = make("1.0", installed_here());
  EXPECT_EQ(identity(program), "fake version 1.0; Target: here");
  const auto date = fs::last_write_time(program);
  make("1.1", installed_here());
  fs::last_write_time(program, date);
  EXPECT_EQ(identity(program), "fake version 1.1; Target: here");
}

TEST_F(RememberedCompiler, AnotherNameOfTheSameFileIsAskedToo) {  // clang derives its target from it
  const std::string program = make("1.0", installed_here()), link = folder_ + "/other-clang++";
  EXPECT_EQ(identity(program), "fake version 1.0; Target: here");
  fs::create_symlink(program, link);
  EXPECT_EQ(identity(link), "fake version 1.0; Target: here");
  EXPECT_EQ(asked(), 2u);
  EXPECT_EQ(identity(link), "fake version 1.0; Target: here");
  EXPECT_EQ(asked(), 2u);
}

// ccache and similar wrappers pass on the compiler's answer.
TEST_F(RememberedCompiler, AWrapperIsAskedEachTime) {
  const std::string itself = called_as(folder_ + "/clang++");
  for (const std::string& more :
       {std::string("InstalledDir: /usr/bin\n"), std::string(),
        installed_here() + "Configuration file: /etc/clang.cfg\n", called_as("/usr/bin/env"),
        called_as("clang++"), "Reading specs from /usr/lib/gcc/specs\n" + itself}) {
    const std::string program = make("1.0", more);
    const std::uintmax_t before = asked();
    EXPECT_THAT(identity(program), testing::StartsWith("fake version 1.0; Target: here"));
    EXPECT_THAT(identity(program), testing::StartsWith("fake version 1.0; Target: here"));
    EXPECT_EQ(asked(), before + 2) << more;
  }
  const std::string script = folder_ + "/script";
  std::ofstream(script) << "#!/bin/sh\nexec '" << make("1.0", installed_here()) << "' -v\n";
  fs::permissions(script, fs::perms::owner_all);
  EXPECT_EQ(identity(script), "fake version 1.0; Target: here");
  EXPECT_EQ(identity(script), "fake version 1.0; Target: here");
  EXPECT_TRUE(memory_.known.empty());
}

TEST_F(RememberedCompiler, FilesOfSettingsAreInTheIdentity) {
  const std::string settings = folder_ + "/clang++.cfg";
  for (const char* words : {"Configuration file: ", "Reading specs from "}) {
    std::ofstream(settings) << "-O0\n";
    const std::string program = make("1.0", installed_here() + words + settings + "\n"),
                      slow = identity(program);
    EXPECT_THAT(slow, testing::StartsWith("fake version 1.0; Target: here; settings "));
    std::ofstream(settings) << "-O3\n";
    const std::string fast = identity(program);
    EXPECT_EQ(fast.size(), slow.size());
    EXPECT_NE(fast, slow);
  }
}

// A file that could not be read for lack of descriptors once counted as empty, even in the keys of kernels.
TEST_F(RememberedCompiler, AFileOfSettingsThatCannotBeReadNowIsNoEmptyOne) {
  const std::string program = make("1.0", "Reading specs from /proc/self/mem\n");  // reading it gives EIO
  const Result<CompilerAnswer> answer = identify_compiler(program, &memory_);
  ASSERT_TRUE(is_scarce(answer));
  EXPECT_THAT(answer.error().message, testing::StartsWith("cannot read '/proc/self/mem', where"));
}

TEST_F(RememberedCompiler, WhereItsPartsAreLookedForIsInTheIdentity) {
  const std::string program = make("1.0", installed_here()), usual = identity(program);
  for (const char* name : {"COMPILER_PATH", "GCC_EXEC_PREFIX"}) {
    setenv(name, "/opt/parts", 1);
    EXPECT_EQ(identity(program), usual + "; " + name + "=/opt/parts");
    unsetenv(name);
  }
  EXPECT_EQ(identity(program), usual);
  EXPECT_EQ(asked(), 1u);
}

TEST_F(RememberedCompiler, WhatIsNoCompilerIsNotRemembered) {
  EXPECT_THAT(identity("/bin/true"), testing::HasSubstr("names no compiler version"));
  EXPECT_THAT(identity("/bin/false"), testing::HasSubstr("ended with exit code 1"));
  EXPECT_TRUE(memory_.known.empty());
}

}  // namespace
}  // namespace regard
