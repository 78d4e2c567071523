#include "compile/rtc_use.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <thread>

namespace regard {
namespace {

using namespace std::chrono_literals;

/// Several times what the longest compile takes. A hanging compile must not block forever.
constexpr auto longest_wait = 10s;

constinit std::atomic<int> users{0}, forks{0};
constinit std::atomic<bool> ending{false}, lost{false};
constinit thread_local int own_uses = 0;  // a signal handler may fork or end the process inside a compiler

void wait_for_other_users() {
  const auto deadline = std::chrono::steady_clock::now() + longest_wait;
  while (users > own_uses && std::chrono::steady_clock::now() < deadline) std::this_thread::sleep_for(1ms);
}

void end() {
  ending = true;
  wait_for_other_users();
}

void before_fork() {
  ++forks;
  wait_for_other_users();
}

void in_parent() {
  --forks;
}

void in_child() {
  if (users > 0) lost = true;
  users = forks = 0;
  ending = false;
}

[[maybe_unused]] const int registered = pthread_atfork(before_fork, in_parent, in_child);

/// exit() destroys the thread-local objects of its thread before it calls the first exit handler, so this
/// one, in the main thread, waits before any object of the compiler is destroyed. The exit handler alone is
/// too late for objects that the compiler created after its last registration: they are destroyed before it
/// is called. It remains for threads that never loaded the library and call exit(). When the main thread
/// calls pthread_exit() and others go on, glibc does not destroy this object.
struct MainThreadsExit {
  ~MainThreadsExit() { end(); }
};

bool is_main_thread() {
  return syscall(SYS_gettid) == getpid();
}

void wait_at_this_threads_exit() {
  static thread_local const MainThreadsExit made;
}

[[maybe_unused]] const bool waits = is_main_thread() && (wait_at_this_threads_exit(), true);

}  // namespace

RtcUse::RtcUse() {
  while (true) {
    ++users;
    if (forks == 0 || own_uses > 0) break;
    --users;
    std::this_thread::sleep_for(1ms);
  }
  ++own_uses;
}

RtcUse::~RtcUse() {
  --own_uses;
  --users;
}

const char* RtcUse::refusal() const {
  if (ending) return "the process is ending";
  if (lost) {
    return "this process was forked inside a compiler, whose locks nothing releases here; compile the kernel "
           "before the fork, or in a newly started program";
  }
  return nullptr;
}

void wait_for_rtc_at_exit() {
  std::atexit(end);
}

}  // namespace regard
