// Which of several contestants is the fastest: they are measured alternately until the differences are larger
// than the noise, or the time is up.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

namespace regard::cli {

/// Two series that were measured in the same rounds.
struct Comparison {
  double ratio = 1;  ///< the median of the ratios within each round: whatever slows a whole round cancels out
  double noise = 0;  ///< three standard errors of that median, and at least 1 %
  bool is_slower() const { return ratio > 1 + noise; }
};
/// Over the first rounds of both.
Comparison compare(const std::vector<double>& samples, const std::vector<double>& base);

struct Contest {
  std::function<double(std::size_t)> measure;  ///< measures a contestant once: milliseconds of a call
  std::function<double()> seconds;             ///< the clock
  std::function<bool()> stop;                  ///< whether the user wants to end it
  double budget = 0;                           ///< seconds
};

struct Outcome {
  std::vector<std::vector<double>> samples;  ///< of each contestant, by round; empty: not measured
  std::size_t best = 0;
  bool decided = false;  ///< false: too few rounds to say anything
};

/// The first contestant is the best unless another one is faster by more than the noise. Any other one that
/// is slower by more than that drops out, and so does one that takes more than twice the fastest one's time
/// at first.
Outcome fastest_of(std::size_t contestants, const Contest&);

}  // namespace regard::cli
