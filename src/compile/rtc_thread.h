// Runs a run-time compiler in a separate thread, while the calling thread checks whether the call should end.
// The host program may answer only once it holds a lock, such as Python's; whatever holds that lock may be
// forking, and a fork waits for all threads inside the compiler.
#pragma once

#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <future>
#include <system_error>
#include <thread>
#include <type_traits>
#include <utility>

#include "base/interruption.h"
#include "base/process_lifetime.h"

namespace regard {

/// The result of `work(stop)`; `stop` becomes true when the call should end.
template <class Work, class Answer = std::invoke_result_t<const Work&, const std::atomic<bool>&>>
Answer in_rtc_thread(const Work& work) {
  std::atomic<bool> stop{false};
  std::packaged_task<Answer()> task([&] { return work(stop); });
  std::future<Answer> answer = task.get_future();
  const auto forked = [before = fork_count()] { return fork_count() != before; };
  std::jthread thread;  // joined even if the host program's function throws
  try {
    thread = std::jthread(std::move(task));
  } catch (const std::system_error& error) {
    return fail(ErrorKind::no_memory, fmt::format("cannot start a thread for a compile: {}", error.what()));
  }
  do {
    if (interrupted()) stop = true;
  } while (!forked() && answer.wait_for(std::chrono::milliseconds(20)) != std::future_status::ready);
  if (forked()) {  // by a signal handler in this thread, whose child does not have the other thread
    thread.detach();
    return fail(ErrorKind::no_kernel, "this process was forked while it compiled; compile the kernel again");
  }
  thread.join();
  return answer.get();
}

}  // namespace regard
