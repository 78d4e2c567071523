// When a run-time compiler may be called; tested without one.
#include "compile/rtc_use.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include "base/interruption.h"
#include "base/tsan_annotations.h"
#include "compile/rtc_thread.h"

namespace regard {
namespace {

using namespace std::chrono_literals;

/// The answer to a forked child that asks for its use: 0 if it may, 1 if the fork forbids it.
int told_in_child() {
  const pid_t child = fork();
  if (child == 0) {
    const char* const why = RtcUse().refusal();
    _exit(why == nullptr                                                              ? 0
          : std::string(why).starts_with("this process was forked inside a compiler") ? 1
                                                                                      : 2);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(RtcUse, AForkWaitsForThreadsInsideAndThenTheChildMayUseItToo) {
  std::atomic<bool> inside{false}, left{false}, again{false};
  std::thread user([&] {
    {
      const RtcUse use;
      inside = true;
      std::this_thread::sleep_for(200ms);
      left = true;
    }
    const RtcUse use;
    again = true;
  });
  while (!inside) std::this_thread::yield();
  EXPECT_EQ(told_in_child(), 0);
  EXPECT_TRUE(left);
  user.join();
  EXPECT_TRUE(again);
}

TEST(RtcUse, AThreadThatForksInsideDoesNotWaitForItself) {
  {
    const RtcUse use;
    EXPECT_EQ(use.refusal(), nullptr);
    EXPECT_EQ(told_in_child(), 1);
  }
  EXPECT_EQ(told_in_child(), 0);
}

TEST(RtcUse, TheEndOfTheProcessWaitsAndRefusesMore) {
  const auto end = [] {
    static std::atomic<bool> inside{false};
    wait_for_rtc_at_exit();
    std::thread([] {
      const RtcUse use;
      inside = true;
      while (use.refusal() == nullptr) std::this_thread::sleep_for(1ms);
      std::this_thread::sleep_for(100ms);
      std::fprintf(stderr, "told that %s", use.refusal());
    }).detach();
    while (!inside) std::this_thread::yield();
    std::thread([] { std::exit(0); }).join();
  };
  EXPECT_EXIT(end(), testing::ExitedWithCode(0), "told that the process is ending");
}

TEST(RtcUse, TheMainThreadsExitWaitsBeforeWhatTheCompilerJustMadeIsDestroyed) {
  const auto end = [] {
    static std::atomic<bool> inside{false}, left{false};
    wait_for_rtc_at_exit();
    std::thread([] {
      const RtcUse use;
      std::atexit(
          [] { std::fputs(left ? "destroyed after the compile" : "destroyed while it compiles", stderr); });
      inside = true;
      while (use.refusal() == nullptr) std::this_thread::sleep_for(1ms);
      std::this_thread::sleep_for(100ms);
      left = true;
    }).detach();
    while (!inside) std::this_thread::yield();
    std::exit(0);
  };
  EXPECT_EXIT(end(), testing::ExitedWithCode(0), "destroyed after the compile");
}

TEST(RtcThread, IsNotWaitedForByAChildThatDoesNotHaveIt) {
#ifdef REGARD_THREAD_SANITIZER
  GTEST_SKIP() << "the sanitizer's runtime ends a child that detaches a thread it does not have";
#endif
  static pid_t child;
  child = -1;
  ask_whether_interrupted([] {  // as a signal handler in the calling thread would
    if (child != -1) return 0;
    child = fork();
    if (child == 0) alarm(5);
    return 0;
  });
  const Result<int> answer = in_rtc_thread([](const std::atomic<bool>&) -> Result<int> {
    std::this_thread::sleep_for(100ms);
    return 1;
  });
  ask_whether_interrupted(nullptr);
  if (child == 0) _exit(answer ? 1 : 0);
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(answer);
}

}  // namespace
}  // namespace regard
