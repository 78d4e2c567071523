// Which contestant is the fastest, with a clock and times that are made up.
#include "cli/contest.h"

#include <gmock/gmock.h>

#include <random>
#include <vector>

using namespace regard::cli;
using testing::SizeIs;

namespace {

/// Contestants with these mean times and this relative noise; a measurement takes `turn` seconds of the
/// clock.
struct Made {
  std::vector<double> means;
  double noise = 0, turn = 0;
  double time = 0;
  std::vector<int> turns = std::vector<int>(means.size());
  std::mt19937 random{7};

  Outcome run(double budget = 1e9, int most_turns = 1 << 30) {
    std::normal_distribution<double> normal;
    int count = 0;
    return fastest_of(means.size(), {.measure =
                                         [&](std::size_t i) {
                                           ++turns[i];
                                           ++count;
                                           time += turn;
                                           return means[i] * (1 + noise * normal(random));
                                         },
                                     .seconds = [&] { return time; },
                                     .stop = [&] { return count >= most_turns; },
                                     .budget = budget});
  }
};

TEST(Contest, TheFastestWins) {
  Made made{.means = {1.5, 1.2, 1.0, 1.1}, .noise = 0.01};
  const Outcome outcome = made.run();
  EXPECT_TRUE(outcome.decided);
  EXPECT_EQ(outcome.best, 2u);
}

TEST(Contest, TheFirstStaysWithinTheNoise) {
  Made made{.means = {1.0, 0.995, 1.0}};
  EXPECT_EQ(made.run().best, 0u);
  Made noisy{.means = {1.0, 0.98}, .noise = 0.3};
  EXPECT_EQ(noisy.run().best, 0u);
  Made clear{.means = {1.0, 0.95}};
  EXPECT_EQ(clear.run().best, 1u);
}

TEST(Contest, WhoeverIsSlowTakesNoFurtherPart) {
  Made made{.means = {1.0, 3.0, 1.1, 1.0}};
  const Outcome outcome = made.run();
  EXPECT_EQ(made.turns[1], 2);
  EXPECT_EQ(made.turns[2], 2 + 5);
  EXPECT_GT(made.turns[3], 7);
  EXPECT_THAT(outcome.samples[1], SizeIs(1));
  EXPECT_THAT(outcome.samples[2], SizeIs(5));
}

TEST(Contest, EndsWhenTheTimeIsUp) {
  Made made{.means = {1.0, 0.999, 0.999}, .turn = 1};
  const Outcome outcome = made.run(30);
  EXPECT_TRUE(outcome.decided);
  EXPECT_LE(made.time, 33);
  Made hurried{.means = {1.0, 0.5, 0.1}, .turn = 1};
  const Outcome two = hurried.run(0);  // enough for the first two
  EXPECT_TRUE(two.decided);
  EXPECT_EQ(two.best, 1u);
  EXPECT_EQ(hurried.turns[2], 0);
  EXPECT_THAT(two.samples[2], SizeIs(0));
}

TEST(Contest, SaysNothingWhereTheUserEndsItEarly) {
  Made made{.means = {1.0, 0.5}};
  EXPECT_FALSE(made.run(1e9, 6).decided);
  EXPECT_FALSE(made.run(1e9, 0).decided);
  EXPECT_FALSE(Made{}.run().decided);
}

TEST(Contest, WhatSlowsARoundCancelsOut) {
  const Comparison same = compare({1, 2, 3, 4, 5}, {1, 2, 3, 4, 5});
  EXPECT_EQ(same.ratio, 1);
  EXPECT_FALSE(same.is_slower());
  const Comparison slower = compare({1.1, 2.2, 3.3, 4.4, 5.5}, {1, 2, 3, 4, 5});
  EXPECT_NEAR(slower.ratio, 1.1, 1e-9);
  EXPECT_TRUE(slower.is_slower());
}

}  // namespace
