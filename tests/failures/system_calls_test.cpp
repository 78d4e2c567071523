// Each public call with each of its system calls failing in turn: the call succeeds or says in one sentence
// what was not available; the process survives, and the next call is right.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include "failures/scenarios.h"
#include "support/failing_calls.h"
#include "support/temporary_folder.h"

namespace regard {
namespace {

namespace fs = std::filesystem;

constexpr int errors[] = {EMFILE, ENOMEM, EINTR, EIO, EACCES, ENOSPC};

class SystemCalls : public testing::Test {
 protected:
  void SetUp() override {
    if (!test::system_calls_can_fail()) GTEST_SKIP() << "system calls cannot be made to fail here";
    setenv("REGARD_CACHE_DIR", (folder_.path() + "/cache").c_str(), 1);
    setenv("REGARD_CXX", "/bin/true", 1);  // is asked for its identity, and prints nothing
    setenv("REGARD_NVRTC", "/dev/null/none", 1);
    setenv("TMPDIR", (folder_.path() + "/temporary").c_str(), 1);
    fs::create_directory(folder_.path() + "/temporary");
    fs::create_directory(folder_.path() + "/cache");
    fs::permissions(folder_.path() + "/cache", fs::perms::owner_all);
    ASSERT_EQ(test::fill_cache(), "");
    // AMD's runtime loads libnuma, whose constructor crashes when a read fails. It runs here, before the
    // calls that fail: it is not part of Regard.
    dlopen("libnuma.so.1", RTLD_NOW | RTLD_NODELETE);
  }

  void TearDown() override { unsetenv("TMPDIR"); }

  /// The good entries and another process's unfinished file, without the damaged entry and Regard's probes.
  std::set<std::string> precious() const {
    std::set<std::string> names;
    for (const auto& item : fs::directory_iterator(folder_.path() + "/cache"))
      if (const std::string name = item.path().filename(); name.front() != 'a' && name.front() != '.')
        names.insert(name);
    return names;
  }

  /// Fails each system call of a scenario in turn, each with a different errno.
  void fail_each(std::size_t index, int turn) {
    bool failed = true;
    for (long n = 1; failed; ++n) {
      std::ofstream(folder_.path() + "/cache/" + std::string(64, 'a') + ".regard") << "damaged";
      std::ofstream(folder_.path() + "/cache/" + std::string(64, 'b') + ".regard.77.1.tmp")
          << "is being written";
      const int error = errors[static_cast<std::size_t>(n + turn) % std::size(errors)];
      const std::set<std::string> before = precious();
      const std::string wrong = test::in_child([&]() -> std::string {
        test::Call fwd(test::forward_problem), bwd(test::backward_problem), cached(test::cached_problem);
        const test::Scenario scenario = test::scenarios(fwd, bwd, cached)[index];
        std::string answer = test::with_failing_call(
            n, error, failed, [&] { return test::defect("while it fails", scenario.call()); },
            [&]() -> std::string {
              return scenario.call() == REGARD_OK
                         ? ""
                         : std::string("is not ok at the next call: ") + regard_status_message();
            });
        if (!failed) return "no such call";
        const bool removes = scenario.name == std::string("clean") || error == EACCES;
        if (answer.empty() && !removes && !std::ranges::includes(precious(), before))
          answer = "removes what is good";
        return answer.empty() ? "" : scenario.name + (" " + answer);
      });
      failed = wrong != "no such call";
      if (failed) {
        EXPECT_EQ(wrong, "") << "system call " << n << " of scenario " << index << ": "
                             << std::strerror(error);
      }
    }
  }

  const TemporaryFolder folder_;
};

TEST_F(SystemCalls, MayFailInEachPublicCall) {
  const std::size_t count = test::scenario_count();
  for (std::size_t index = 0; index < count; ++index) fail_each(index, static_cast<int>(index));
  EXPECT_TRUE(fs::is_empty(folder_.path() + "/temporary"));  // no litter
}

}  // namespace
}  // namespace regard
