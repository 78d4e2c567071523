// Descriptors and threads that run out for a moment: the call is served with those that are left, the next
// one as if nothing had happened, and nothing is left behind.
#include <dlfcn.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "failures/scenarios.h"
#include "support/sanitized.h"
#include "support/temporary_folder.h"

namespace {
std::atomic<bool> no_threads{false};
}

#ifndef REGARD_SANITIZED
/// Replaces the C library's function for oneTBB, because a limit on processes does not apply to root.
extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*start)(void*),
                              void* argument) {
  if (no_threads) return EAGAIN;
  static const auto next = reinterpret_cast<decltype(&pthread_create)>(dlsym(RTLD_NEXT, "pthread_create"));
  return next(thread, attributes, start, argument);
}
#endif

namespace regard {
namespace {

namespace fs = std::filesystem;

/// A problem whose kernel is neither built in nor cached.
constexpr const char* other_problem = "fwd fp32 h=1 s=40 d=20 mask=causal";

regard_status attention(test::Call& call, int threads) {
  regard_plan_options options = REGARD_PLAN_OPTIONS_INIT;
  options.threads = threads;
  call.clear();
  const regard_status status = regard_attention(call.problem, &options, &call.arguments);
  return status == REGARD_OK && !call.wrote() ? REGARD_INTERNAL : status;
}

std::string plan_json(const test::Call& call, int threads) {
  regard_plan_options options = REGARD_PLAN_OPTIONS_INIT;
  options.threads = threads;
  regard_plan* plan = nullptr;
  char* json = nullptr;
  std::string text;
  if (regard_plan_create(call.problem, &options, &plan) == REGARD_OK &&
      regard_plan_prepare(plan) == REGARD_OK && regard_plan_json(plan, &json) == REGARD_OK)
    text = json;
  regard_string_free(json);
  regard_plan_destroy(plan);
  return text;
}

/// Leaves only this many descriptors free during its lifetime.
class FewDescriptors {
 public:
  explicit FewDescriptors(int free) {
    getrlimit(RLIMIT_NOFILE, &before_);
    std::vector<int> found;
    for (int i = 0; i < free; ++i) found.push_back(open("/dev/null", O_RDONLY | O_CLOEXEC));
    const int first = free > 0 ? found.back() + 1 : first_free();
    for (const int one : found) close(one);
    const rlimit few = {static_cast<rlim_t>(first), before_.rlim_max};
    setrlimit(RLIMIT_NOFILE, &few);
  }
  ~FewDescriptors() { setrlimit(RLIMIT_NOFILE, &before_); }
  FewDescriptors(const FewDescriptors&) = delete;
  FewDescriptors& operator=(const FewDescriptors&) = delete;

 private:
  static int first_free() {
    const int one = open("/dev/null", O_RDONLY | O_CLOEXEC);
    close(one);
    return one;
  }
  rlimit before_{};
};

class Scarce : public testing::Test {
 protected:
  void SetUp() override {
    setenv("REGARD_CACHE_DIR", (folder_.path() + "/cache").c_str(), 1);
    setenv("TMPDIR", (folder_.path() + "/temporary").c_str(), 1);
    unsetenv("REGARD_CXX");
    fs::create_directory(folder_.path() + "/temporary");
  }
  void TearDown() override { unsetenv("TMPDIR"); }

  const TemporaryFolder folder_;
};

TEST_F(Scarce, DescriptorsAreMissingForOneCallOnly) {
  ASSERT_EQ(test::fill_cache(), "");
  // With a compiler, with one that must not be used, and without one.
  using Settings = std::vector<std::pair<const char*, const char*>>;
  const Settings settings[] = {{}, {{"REGARD_JIT", "off"}}, {{"REGARD_CXX", "/dev/null/c++"}}};
  for (int i = 0; i <= 8 * 3 + 2; ++i) {
    const int free = i / 3;
    const std::string wrong = test::in_child([&]() -> std::string {
      for (const auto& [name, value] : settings[i % 3]) setenv(name, value, 1);
      test::Call call(test::cached_problem), other(other_problem);
      {
        const FewDescriptors few(free);
        if (attention(call, 1) != REGARD_OK) return regard_status_message();
        if (attention(other, 1) != REGARD_OK) return std::string("to compile: ") + regard_status_message();
      }
      if (attention(call, 1) != REGARD_OK) return std::string("next: ") + regard_status_message();
      const std::string plan = plan_json(call, 1);
      return plan.find("\"tier\":\"cache\"") != std::string::npos ? "" : "degraded: " + plan;
    });
    EXPECT_EQ(wrong, "") << free << " descriptors are free, settings " << i % 3;
    EXPECT_TRUE(fs::is_empty(folder_.path() + "/temporary")) << free;
  }
}

TEST_F(Scarce, TheMachineIsKnownWithoutAFile) {
#ifdef REGARD_SANITIZED
  GTEST_SKIP() << "a sanitizer opens a pipe to look at memory";
#endif
  const auto target = [] {
    char* json = nullptr;
    const std::string text = regard_info(&json) == REGARD_OK ? json : regard_status_message();
    regard_string_free(json);
    const std::size_t at = text.find("\"target\":");
    return at == std::string::npos ? text : text.substr(at, 30);
  };
  setenv("REGARD_CXX", "/bin/true", 1);
  const std::string with_files = test::in_child([&] { return target(); });
  const std::string without = test::in_child([&] {
    const FewDescriptors few(0);
    return target();
  });
  EXPECT_EQ(without, with_files);
  EXPECT_EQ(with_files.find("\"target\":"), 0u) << with_files;
}

TEST_F(Scarce, NoMoreThreadsMeansThoseThatAreThere) {
#ifdef REGARD_SANITIZED
  GTEST_SKIP() << "sanitizers replace pthread_create themselves";
#endif
  for (const char* text : {"fwd fp32 h=8 s=400 d=64", "bwd fp32 h=2 s=400 d=64"}) {
    const std::string wrong = test::in_child([text]() -> std::string {
      test::Call call(text);
      no_threads = true;
      if (attention(call, 4) != REGARD_OK) return regard_status_message();
      if (attention(call, 3) != REGARD_OK) return std::string("three threads: ") + regard_status_message();
      no_threads = false;
      return attention(call, 4) == REGARD_OK ? "" : std::string("next: ") + regard_status_message();
    });
    EXPECT_EQ(wrong, "") << text;
  }
}

}  // namespace
}  // namespace regard
