#include "cli/contest.h"

#include <algorithm>
#include <cmath>

#include "cli/timing.h"

namespace regard::cli {
namespace {

constexpr std::size_t least_rounds = 5, rounds_of_two = 10, most_rounds = 25;
constexpr double least_noise = 0.01, standard_errors = 3;
/// A contestant that takes more than this multiple of the fastest one's time at first takes no part.
constexpr double hopeless = 2;

/// Standard deviations per median absolute deviation, and the standard error of a median per one of a mean,
/// for a normal distribution.
constexpr double deviations = 1.4826, error_of_median = 1.2533;

std::size_t fastest(const std::vector<std::vector<double>>& samples,
                    const std::vector<std::size_t>& taking_part) {
  return *std::ranges::min_element(taking_part, {}, [&](std::size_t i) { return median(samples[i]); });
}

}  // namespace

Comparison compare(const std::vector<double>& samples, const std::vector<double>& base) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < std::min(samples.size(), base.size()); ++i)
    ratios.push_back(samples[i] / base[i]);
  Comparison comparison;
  if (ratios.empty()) return comparison;
  comparison.ratio = median(ratios);
  std::vector<double> distances;
  for (const double ratio : ratios) distances.push_back(std::fabs(ratio - comparison.ratio));
  const double error = error_of_median * deviations * median(distances) / std::sqrt(std::size(ratios));
  comparison.noise = std::max(least_noise, standard_errors * error);
  return comparison;
}

Outcome fastest_of(std::size_t contestants, const Contest& contest) {
  Outcome outcome;
  outcome.samples.resize(contestants);
  const double end = contest.seconds() + contest.budget;
  const auto over = [&] { return contest.stop() || contest.seconds() >= end; };

  // The first call touches the memory; the second decides who takes part. At least the first contestant and
  // another one are measured, however short the time is.
  std::vector<double> first(contestants, HUGE_VAL);
  for (std::size_t i = 0; i < contestants && !contest.stop() && (i < 2 || !over()); ++i) {
    contest.measure(i);
    first[i] = contest.measure(i);
  }
  const double least = contestants == 0 ? 0 : *std::ranges::min_element(first);
  std::vector<std::size_t> taking_part;
  for (std::size_t i = 0; i < contestants; ++i)
    if (first[i] < HUGE_VAL && (i == 0 || first[i] <= hopeless * least)) taking_part.push_back(i);

  std::size_t rounds = 0;
  const auto slower_than = [&](std::size_t leader) {
    return [&outcome, leader](std::size_t i) {
      return compare(outcome.samples[i], outcome.samples[leader]).is_slower();
    };
  };
  while (!taking_part.empty() && rounds < most_rounds && !contest.stop() &&
         (rounds < least_rounds || !over())) {
    for (const std::size_t i : taking_part) outcome.samples[i].push_back(contest.measure(i));
    // Those that take part were measured in every round, so samples can be compared by round.
    if (++rounds < least_rounds) continue;
    const auto is_slower = slower_than(fastest(outcome.samples, taking_part));
    // The first one is judged only at the end: judged after each round, it would seem slower by chance sooner
    // or later.
    std::erase_if(taking_part, [&](std::size_t i) { return i != 0 && is_slower(i); });
    if (taking_part.size() == 1 || (taking_part.size() == 2 && rounds >= rounds_of_two && is_slower(0)))
      break;
  }
  outcome.decided = rounds >= least_rounds;
  if (!outcome.decided) return outcome;
  const std::size_t leader = fastest(outcome.samples, taking_part);
  outcome.best = slower_than(leader)(0) ? leader : 0;
  for (std::size_t i = 0; i < contestants; ++i)
    if (outcome.samples[i].empty() && first[i] < HUGE_VAL) outcome.samples[i].push_back(first[i]);
  return outcome;
}

}  // namespace regard::cli
