// A cancelled thread ends after its call and never inside it, for every public call and every kind of
// cancellation; afterwards nothing of the call is still held.
#include <gtest/gtest.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>

#include "failures/scenarios.h"
#include "support/sanitized.h"
#include "support/temporary_folder.h"

namespace regard {
namespace {

/// Runs `body` in a thread; whether the thread ended before `body` did.
bool is_cancelled(const std::function<void()>& body, const std::function<void(pthread_t)>& meanwhile = {}) {
  struct Work {
    const std::function<void()>& body;
    bool done = false;
  } work{body};
  const auto run = [](void* given) -> void* {
    Work& work = *static_cast<Work*>(given);
    work.body();
    work.done = true;
    return nullptr;
  };
  pthread_t thread;
  if (pthread_create(&thread, nullptr, run, &work) != 0) return false;
  if (meanwhile) meanwhile(thread);
  pthread_join(thread, nullptr);  // glibc 2.36 does not always give PTHREAD_CANCELED here
  return !work.done;
}

class Cancellation : public testing::Test {
 protected:
  void SetUp() override {
    setenv("REGARD_CACHE_DIR", (folder_.path() + "/cache").c_str(), 1);
    setenv("REGARD_NVRTC", "/nowhere", 1);
    unsetenv("REGARD_CXX");
  }

  const TemporaryFolder folder_;
};

TEST_F(Cancellation, ThatIsPendingActsAfterEachPublicCall) {
  const std::size_t count = test::scenario_count();
  for (std::size_t index = 0; index < count; ++index) {
    const auto wrong = test::with_scenario(index, [](const test::Scenario& scenario) -> std::string {
      std::string answer = "ended in the call";
      const bool cancelled = is_cancelled([&] {
        pthread_cancel(pthread_self());
        answer = test::defect("pending", scenario.call());
        pthread_testcancel();
      });
      if (answer.empty() && !cancelled) answer = "forgotten";
      if (answer.empty()) answer = test::defect("the next call", scenario.call());
      return answer.empty() ? "" : scenario.name + (": " + answer);
    });
    EXPECT_EQ(wrong, "");
  }
}

/// The cancellation arrives while the kernel is being compiled; the call then still computes on all cores.
TEST_F(Cancellation, DuringAFirstCallActsWhenAllIsComputed) {
  for (const int type : {PTHREAD_CANCEL_DEFERRED, PTHREAD_CANCEL_ASYNCHRONOUS}) {
    std::filesystem::remove_all(folder_.path() + "/cache");
    const std::string wrong = test::in_child([type]() -> std::string {
      test::Call call(test::cached_problem);
      call.clear();
      std::atomic<bool> begun{false};
      const auto compute = [&] {
        begun = true;
        regard_attention(call.problem, nullptr, &call.arguments);
        pthread_testcancel();
      };
      const auto first = [&] {
        pthread_setcanceltype(type, nullptr);
        compute();
      };
      const bool cancelled = is_cancelled(first, [&](pthread_t thread) {
        while (!begun) usleep(1000);
        usleep(100'000);
        pthread_cancel(thread);
      });
      if (!cancelled) return "not cancelled";
      if (!call.wrote()) return "cancelled in the call";
      call.clear();
      compute();
      return call.wrote() ? "" : regard_status_message();
    });
    EXPECT_EQ(wrong, "") << (type == PTHREAD_CANCEL_DEFERRED ? "deferred" : "asynchronous");
  }
}

/// Cancels at any moment, including the first and the last instruction of a call.
TEST_F(Cancellation, AsynchronousOnesInTheMiddleOfManyCallsLeaveNothingHeld) {
#ifdef REGARD_SANITIZED
  GTEST_SKIP() << "the code that a sanitizer adds between the calls must not be cancelled";
#endif
  const std::string wrong = test::in_child([]() -> std::string {
    test::Call call(test::forward_problem);
    const auto compute = [&] { return regard_attention(call.problem, nullptr, &call.arguments); };
    const auto calls = [&] {
      pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, nullptr);
      while (compute() == REGARD_OK) {
      }
    };
    compute();  // so that the loader resolves all functions now: it is not safe to cancel
    for (int round = 0; round < 200; ++round) {
      const auto cancel = [round](pthread_t thread) {
        usleep(static_cast<useconds_t>(100 + 7 * round));
        pthread_cancel(thread);
      };
      if (!is_cancelled(calls, cancel)) return std::string("a call failed: ") + regard_status_message();
    }
    call.clear();
    return compute() == REGARD_OK && call.wrote() ? "" : regard_status_message();
  });
  EXPECT_EQ(wrong, "");
}

}  // namespace
}  // namespace regard
