#include "base/parallel_for.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <stdexcept>
#include <thread>

namespace regard {
namespace {

TEST(RunThreads, RunsEachLaneOnceAndTheFirstInTheCaller) {
  std::array<std::atomic<int>, 5> calls{};
  std::thread::id first;
  run_threads(5, [&](int lane) {
    ++calls[static_cast<std::size_t>(lane)];
    if (lane == 0) first = std::this_thread::get_id();
  });
  for (const std::atomic<int>& count : calls) EXPECT_EQ(count, 1);
  EXPECT_EQ(first, std::this_thread::get_id());
}

TEST(RunThreads, PassesOnAnExceptionAfterAllHaveEnded) {
  std::atomic<int> ended{0};
  const auto work = [&](int lane) {
    ++ended;
    if (lane == 1) throw std::runtime_error("lane 1");
  };
  EXPECT_THROW(run_threads(3, work), std::runtime_error);
  EXPECT_EQ(ended, 3);
}

TEST(ParallelFor, DoesEachPieceOnceWhateverTheLanes) {
  for (const std::size_t lanes : {0, 1, 3, 9}) {
    std::array<std::atomic<int>, 5> calls{};
    parallel_for(calls.size(), lanes, [&](std::size_t i) { ++calls[i]; });
    for (const std::atomic<int>& count : calls) EXPECT_EQ(count, 1) << lanes;
  }
  parallel_for(0, 3, [](std::size_t) { ADD_FAILURE(); });
}

}  // namespace
}  // namespace regard
