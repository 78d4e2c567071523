// Each public call with each of its allocations failing in turn, alone and with all later ones: the call
// succeeds or reports that memory ran out; the process survives, the next call is right, and nothing leaks.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <thread>

#include "failures/scenarios.h"
#include "support/failing_memory.h"
#include "support/temporary_folder.h"

namespace regard {
namespace {

int first_free_descriptor() {
  const int one = open("/dev/null", O_RDONLY | O_CLOEXEC);
  close(one);
  return one;
}

/// Calls with the n-th allocation failing; whether there was one.
bool fails_at(const test::Scenario& scenario, long n, bool all_following, std::string& wrong) {
  test::fail_allocation(n, all_following);
  const regard_status status = scenario.call();
  const bool failed = test::end_failing();
  wrong = test::defect("while memory fails", status);
  if (wrong.empty() && status != REGARD_OK && status != REGARD_NO_MEMORY)
    wrong = std::string("ends with ") + regard_status_name(status) + ": " + regard_status_message();
  if (wrong.empty() && failed) {
    const regard_status next = scenario.call();
    if (next != REGARD_OK) wrong = std::string("is not ok at the next call: ") + regard_status_message();
  }
  return failed;
}

/// The next allocation to fail: each of the first, then ever fewer, as a call can make tens of thousands.
long after(long n) {
  return n < 150 ? n + 1 : n + n / 12;
}

class Memory : public testing::Test {
 protected:
  void SetUp() override {
    if (!test::memory_can_fail) GTEST_SKIP() << "memory cannot be made to fail in this build";
    setenv("REGARD_CACHE_DIR", folder_.path().c_str(), 1);
    setenv("REGARD_CXX", "/bin/true", 1);  // is asked for its identity, and prints nothing
    setenv("REGARD_NVRTC", "/dev/null/none", 1);
    std::ofstream(folder_.path() + "/" + std::string(64, 'a') + ".regard") << "damaged";
    ASSERT_EQ(test::fill_cache(), "");
  }

  const TemporaryFolder folder_;
};

TEST_F(Memory, MayRunOutInEachCallThatIsNotTheFirst) {
  const std::size_t count = test::scenario_count();
  for (std::size_t index = 0; index < count; ++index) {
    for (const bool all_following : {false, true}) {
      const std::string wrong =
          test::with_scenario(index, [&](const test::Scenario& scenario) -> std::string {
            if (const regard_status status = scenario.call(); status != REGARD_OK)
              return std::string(scenario.name) + ": " + regard_status_message();
            std::string wrong;
            const int free_before = first_free_descriptor();
            long in_use = 0;
            for (long n = 1; fails_at(scenario, n, all_following, wrong); n = after(n)) {
              if (!wrong.empty())
                return scenario.name + (" at allocation " + std::to_string(n)) + " " + wrong;
              if (n == 10) in_use = test::pieces_in_use();  // all lasting memory is allocated by now
            }
            if (first_free_descriptor() != free_before)
              return scenario.name + std::string(" loses a descriptor");
            const long lost = in_use == 0 ? 0 : test::pieces_in_use() - in_use;
            return lost > 5 ? scenario.name + (" loses memory: " + std::to_string(lost)) : "";
          });
      EXPECT_EQ(wrong, "") << index << (all_following ? ", and all that follow" : "");
    }
  }
}

TEST_F(Memory, MayRunOutInEachFirstCall) {
  const std::size_t count = test::scenario_count();
  for (std::size_t index = 0; index < count; ++index) {
    for (const bool all_following : {false, true}) {
      bool failed = true;
      for (long n = 1; failed; n = n < 16 ? n + 1 : n + n / 3) {
        const std::string wrong =
            test::with_scenario(index, [&](const test::Scenario& scenario) -> std::string {
              std::string wrong;
              if (!fails_at(scenario, n, all_following, wrong)) return "all allocations had";
              return wrong.empty() ? ""
                                   : scenario.name + (" at allocation " + std::to_string(n)) + " " + wrong;
            });
        failed = wrong != "all allocations had";
        if (failed) {
          ASSERT_EQ(wrong, "") << index << ", allocation " << n << (all_following ? " and on" : "");
        }
      }
    }
  }
}

/// A compiler that compiles only once, and then returns the same output.
void make_quick_compiler(const std::string& path) {
  std::ofstream(path) << "#!/bin/sh\nif [ \"$1\" = -v ]; then echo 'quick version 1' >&2; exit; fi\n"
                      << "[ -e \"$0.so\" ] || c++ \"$@\" || exit\nwhile [ \"$1\" != -o ]; do shift; done\n"
                      << "if [ -e \"$0.so\" ]; then cp \"$0.so\" \"$2\"; else cp \"$2\" \"$0.so\"; fi\n";
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
}

/// The kernel of a problem, which has not been made yet.
std::string kernel_of(const char* problem) {
  const test::Call call(problem);
  regard_plan* plan = nullptr;
  char* json = nullptr;
  std::string text;
  if (regard_plan_create(call.problem, nullptr, &plan) == REGARD_OK &&
      regard_plan_json(plan, &json) == REGARD_OK)
    text = json;
  regard_string_free(json);
  regard_plan_destroy(plan);
  const std::string_view name = "\"kernel\":\"";
  const std::size_t start = text.find(name);
  if (start == std::string::npos) return text;
  text.erase(0, start + name.size());
  return text.substr(0, text.find('"'));
}

TEST_F(Memory, MayRunOutInEachStepOfACompile) {
  const std::string compiler = folder_.path() + "/quick", cache = folder_.path() + "/compiled";
  make_quick_compiler(compiler);
  setenv("REGARD_CXX", compiler.c_str(), 1);
  setenv("REGARD_CACHE_DIR", cache.c_str(), 1);
  setenv("REGARD_COMPILE_JOBS", "1", 1);  // so that a leaked slot shows
  unsetenv("XDG_RUNTIME_DIR");            // where it would wait for other tests' compiles
  for (const bool all_following : {false, true}) {
    bool failed = true;
    for (long n = 1; failed; n += 1 + n / 8) {
      std::filesystem::remove_all(cache);
      const std::string wrong = test::in_child([&]() -> std::string {
        alarm(60);
        const std::string kernel = kernel_of(test::cached_problem);
        const test::Scenario compile = {"compile", [&kernel] {
                                          char* json = nullptr;
                                          const regard_status status =
                                              regard_prepare_kernel(kernel.c_str(), &json);
                                          regard_string_free(json);
                                          return status;
                                        }};
        std::string wrong;
        if (!fails_at(compile, n, all_following, wrong) && wrong.empty()) return "all allocations had";
        return wrong;
      });
      failed = wrong != "all allocations had";
      if (failed) {
        ASSERT_EQ(wrong, "") << "allocation " << n << (all_following ? " and on" : "");
      }
    }
  }
  unsetenv("REGARD_COMPILE_JOBS");
}

TEST_F(Memory, MayRunOutBeforeAThreadKeepsItsFirstSentence) {
  const std::string wrong = test::in_child([]() -> std::string {
    regard_status status = REGARD_OK;
    std::string sentence;
    sentence.reserve(100);
    std::thread([&] {
      test::fail_allocation(1, true);
      regard_problem* problem = nullptr;
      status = regard_problem_parse("fwd fp32 maks=causal", &problem);
      const char* const said = regard_status_message();
      test::end_failing();
      sentence = said;
    }).join();
    return status == REGARD_NO_MEMORY && sentence == "out of memory" ? "" : sentence;
  });
  EXPECT_EQ(wrong, "");
}

}  // namespace
}  // namespace regard
