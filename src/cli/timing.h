// Wall-clock times of a call.
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <vector>

namespace regard::cli {

/// The milliseconds that `work` takes.
template <class Work>
double milliseconds(const Work& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  const std::chrono::duration<double, std::milli> taken = std::chrono::steady_clock::now() - start;
  return taken.count();
}

/// How many calls of `once_ms` each make a sample that is long enough for the clock and short enough for the
/// user.
inline int calls_per_sample(double once_ms) {
  constexpr double sample_ms = 2;
  return static_cast<int>(std::clamp(std::ceil(sample_ms / std::max(once_ms, 1e-6)), 1.0, 10000.0));
}

/// The middle value; for an even count the mean of the two middle values.
inline double median(std::vector<double> values) {
  std::ranges::sort(values);
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 != 0 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

}  // namespace regard::cli
