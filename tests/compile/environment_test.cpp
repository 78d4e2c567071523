// A compiler gets the variables that it needs, and none that would change kernels but not their keys.
#include "compile/environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>

#include "compile/host_compiler.h"
#include "compile/host_options.h"
#include "compile/process.h"
#include "compile/toolchain.h"
#include "support/temporary_folder.h"

extern char** environ;  // NOLINT: POSIX

namespace regard {
namespace {

using testing::Contains;
using testing::Not;
using testing::StartsWith;

/// Restores the process's environment at the end.
class Environment : public testing::Test {
 protected:
  Environment() {
    for (char** variable = environ; *variable != nullptr; ++variable) before_.emplace_back(*variable);
  }
  ~Environment() override {
    clearenv();
    for (std::string& variable : before_) {
      const std::size_t equals = variable.find('=');
      setenv(variable.substr(0, equals).c_str(), variable.substr(equals + 1).c_str(), 1);
    }
  }
  const TemporaryFolder own_;

 private:
  std::vector<std::string> before_;
};

TEST_F(Environment, WhatChangesKernelsIsLeftOutAndTheRestIsPassedOn) {
  const std::vector<std::string> left_out = {"CCC_OVERRIDE_OPTIONS",
                                             "CCC_ADD_ARGS",
                                             "GCC_COMPARE_DEBUG",
                                             "DEPENDENCIES_OUTPUT",
                                             "SUNPRO_DEPENDENCIES",
                                             "CPATH",
                                             "C_INCLUDE_PATH",
                                             "CPLUS_INCLUDE_PATH",
                                             "GNUTARGET",
                                             "LDEMULATION",
                                             "LD_RUN_PATH",
                                             "NVCC_PREPEND_FLAGS",
                                             "NVCC_APPEND_FLAGS",
                                             "HIPCC_COMPILE_FLAGS_APPEND",
                                             "HIPCC_LINK_FLAGS_APPEND",
                                             "LC_ALL",
                                             "TMPDIR"};
  for (const std::string& name : left_out) setenv(name.c_str(), "theirs", 1);
  const std::vector<std::string> passed_on = {"LD_LIBRARY_PATH", "COMPILER_PATH", "GCC_EXEC_PREFIX",
                                              "LIBRARY_PATH",    "CCACHE_DIR",    "HOME"};
  for (const std::string& name : passed_on) setenv(name.c_str(), "/theirs", 1);
  const std::vector<std::string> made = child_environment({"TMPDIR=/ours"});
  for (const std::string& name : left_out) EXPECT_THAT(made, Not(Contains(name + "=theirs")));
  for (const std::string& name : passed_on) EXPECT_THAT(made, Contains(name + "=/theirs"));
  EXPECT_THAT(made, Contains("LC_ALL=C"));
  EXPECT_THAT(made, Contains("TMPDIR=/ours").Times(1));
  EXPECT_THAT(made, Contains(StartsWith("PATH=")).Times(1));
}

TEST_F(Environment, ThePathIsThatInWhichTheCompilerWasFound) {
  EXPECT_THAT(child_environment({}), Contains("PATH=" + search_path()));
  setenv("PATH", "tools::/usr/bin", 1);  // a child starts in another folder
  EXPECT_EQ(search_path(), std::filesystem::current_path().string() + "/tools:/usr/bin");
  for (const bool set : {true, false}) {
    set ? setenv("PATH", "", 1) : unsetenv("PATH");
    EXPECT_EQ(search_path(), "/usr/local/bin:/usr/bin:/bin");
    EXPECT_THAT(child_environment({}), Contains("PATH=/usr/local/bin:/usr/bin:/bin"));
  }
}

// Once, the compiler was found on a default PATH that it did not get itself, so it did not find its linker.
TEST_F(Environment, ACompilerThatIsFoundWithoutAnyVariableCompiles) {
  clearenv();
  const auto found = find_host_compiler("", search_path());
  ASSERT_TRUE(found) << found.error().message;
  const Result<Compiled> compiled = (*found)->compile(
      {"kernel", "extern \"C\" int answer() { return 42; }\n", {host_options.begin(), host_options.end()}});
  EXPECT_TRUE(compiled) << compiled.error().message;
}

TEST_F(Environment, WhatChoosesACompilersPartsIsInItsIdentity) {
  for (const char* name : {"COMPILER_PATH", "GCC_EXEC_PREFIX", "LIBRARY_PATH"}) unsetenv(name);
  EXPECT_EQ(environment_identity(), "");
  setenv("COMPILER_PATH", "/a", 1);
  setenv("GCC_EXEC_PREFIX", "/b", 1);
  EXPECT_EQ(environment_identity(), "; COMPILER_PATH=/a; GCC_EXEC_PREFIX=/b");
  unsetenv("COMPILER_PATH");
  unsetenv("GCC_EXEC_PREFIX");
  setenv("LIBRARY_PATH", (own_.path() + "/none::" + own_.path()).c_str(), 1);
  EXPECT_EQ(environment_identity(), "") << "there is no C library in there";
  std::ofstream(own_.path() + "/libc.so");
  EXPECT_EQ(environment_identity(), "; LIBRARY_PATH=" + own_.path());
}

}  // namespace
}  // namespace regard
