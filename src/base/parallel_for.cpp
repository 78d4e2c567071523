#include "base/parallel_for.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <thread>
#include <vector>

namespace regard {

void run_lanes(int lanes, const std::function<void(int lane)>& work) {
  std::vector<std::exception_ptr> thrown(static_cast<std::size_t>(lanes));
  const auto run = [&](int lane) {
    try {
      work(lane);
    } catch (...) {
      thrown[static_cast<std::size_t>(lane)] = std::current_exception();
    }
  };
  std::vector<std::thread> helpers;
  helpers.reserve(static_cast<std::size_t>(lanes));
  int started = 1;
  try {
    for (; started < lanes; ++started) helpers.emplace_back(run, started);
  } catch (const std::exception&) {  // no more threads, or no memory for one
  }
  run(0);
  for (int lane = started; lane < lanes; ++lane) run(lane);
  for (std::thread& helper : helpers) helper.join();
  for (const std::exception_ptr& one : thrown) {
    if (one) std::rethrow_exception(one);
  }
}

void share_out(std::size_t count, std::size_t lanes, const std::function<void(std::size_t i)>& work) {
  std::atomic<std::size_t> next{0};
  run_lanes(static_cast<int>(std::clamp<std::size_t>(lanes, 1, std::max<std::size_t>(count, 1))), [&](int) {
    for (std::size_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < count;) work(i);
  });
}

}  // namespace regard
