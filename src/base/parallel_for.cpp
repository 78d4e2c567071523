#include "base/parallel_for.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <thread>
#include <vector>

namespace regard {

void run_threads(int threads, const std::function<void(int number)>& work) {
  std::vector<std::exception_ptr> thrown(static_cast<std::size_t>(threads));
  const auto run = [&](int number) {
    try {
      work(number);
    } catch (...) {
      thrown[static_cast<std::size_t>(number)] = std::current_exception();
    }
  };
  std::vector<std::thread> helpers;
  helpers.reserve(static_cast<std::size_t>(threads));
  int started = 1;
  try {
    for (; started < threads; ++started) helpers.emplace_back(run, started);
  } catch (const std::exception&) {  // no more threads, or no memory for one
  }
  run(0);
  for (int number = started; number < threads; ++number) run(number);
  for (std::thread& helper : helpers) helper.join();
  for (const std::exception_ptr& one : thrown) {
    if (one) std::rethrow_exception(one);
  }
}

void parallel_for(std::size_t count, std::size_t threads, const std::function<void(std::size_t i)>& work) {
  std::atomic<std::size_t> next{0};
  run_threads(static_cast<int>(std::clamp<std::size_t>(threads, 1, std::max<std::size_t>(count, 1))),
              [&](int) {
                for (std::size_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < count;) work(i);
              });
}

}  // namespace regard
