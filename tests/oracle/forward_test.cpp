// Cases small enough to be worked out by hand.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "run_case.h"

namespace regard::test {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

/// Zero queries make all scores zero: O is the plain mean of the visible values.
Case uniform(const std::string& text, CaseOptions options = {}) {
  options.q_scale = 0;
  Case c(text, options);
  for (std::int64_t j = 0; j < c.count(REGARD_V); ++j) c.set(REGARD_V, j, std::exp2(static_cast<double>(j)));
  return c;
}

/// One head, dv = 1: which keys each row sees, as bits, from V[j] = 2^j and the number of visible keys.
std::vector<int> visible_keys(const std::string& text, const CaseOptions& options = {}) {
  Case c = uniform(text, options);
  const oracle::Outputs outputs = run(c);
  std::vector<int> rows;
  for (std::size_t i = 0; i < outputs.at(REGARD_O).value.size(); ++i) {
    const double lse = outputs.at(REGARD_LSE).value[i];
    rows.push_back(static_cast<int>(std::lround(outputs.at(REGARD_O).value[i] * std::exp(lse))));
  }
  return rows;
}

TEST(Oracle, TwoKeysByHand) {
  Case c("fwd fp32 b=1 h=1 sq=1 sk=2 d=1 scale=2 lse");
  c.set(REGARD_Q, 0, 3);
  c.set(REGARD_K, 0, 0.5);
  c.set(REGARD_K, 1, -0.25);
  c.set(REGARD_V, 0, 10);
  c.set(REGARD_V, 1, -6);
  const double sum = std::exp(3.0) + std::exp(-1.5);
  const oracle::Outputs outputs = run(c);
  EXPECT_NEAR(outputs.at(REGARD_O).value[0], (10 * std::exp(3.0) - 6 * std::exp(-1.5)) / sum, 1e-14);
  EXPECT_NEAR(outputs.at(REGARD_LSE).value[0], std::log(sum), 1e-14);
}

TEST(Oracle, MasksByPosition) {
  const auto keys = [](const std::string& words) {
    return visible_keys("fwd fp32 b=1 h=1 d=1 lse " + words);
  };
  using Rows = std::vector<int>;
  EXPECT_EQ(keys("sq=2 sk=4"), (Rows{0b1111, 0b1111}));
  EXPECT_EQ(keys("sq=2 sk=4 mask=causal"), (Rows{0b0111, 0b1111}));
  EXPECT_EQ(keys("sq=2 sk=4 mask=causal_top_left"), (Rows{0b0001, 0b0011}));
  EXPECT_EQ(keys("s=4 mask=window:0,0"), (Rows{0b0001, 0b0010, 0b0100, 0b1000}));
  EXPECT_EQ(keys("s=4 mask=window:1,0"), (Rows{0b0001, 0b0011, 0b0110, 0b1100}));
  EXPECT_EQ(keys("s=4 mask=window:-1,1"), (Rows{0b0011, 0b0111, 0b1111, 0b1111}));
  EXPECT_EQ(keys("sq=2 sk=4 mask=window:1,0"), (Rows{0b0110, 0b1100}));
  EXPECT_EQ(keys("sq=2 sk=4 mask=window:1,0,top_left"), (Rows{0b0001, 0b0011}));
  EXPECT_EQ(keys("s=4 mask=window:0,0,sink=2"), (Rows{0b0001, 0b0011, 0b0111, 0b1011}));
}

TEST(Oracle, CausalRowsAboveTheFirstKeyAreEmpty) {
  Case c = uniform("fwd fp32 b=1 h=1 sq=4 sk=2 d=1 mask=causal lse");
  const oracle::Outputs outputs = run(c);
  const auto& o = outputs.at(REGARD_O).value;
  const auto& lse = outputs.at(REGARD_LSE).value;
  for (const std::size_t i : {0, 1}) {
    EXPECT_EQ(o[i], 0);
    EXPECT_EQ(lse[i], -infinity);
  }
  EXPECT_EQ(o[2], 1);
  EXPECT_EQ(o[3], 1.5);
}

TEST(Oracle, RangesBitsAndMaskMustAllAllow) {
  Case c = uniform("fwd fp32 b=1 h=1 sq=1 sk=4 d=1 mask=window:2,-1 ranges bits lse");
  c.set(REGARD_RANGES, 0, 0);
  c.set(REGARD_RANGES, 1, 3);
  c.set(REGARD_BITS, 0, 0b1011);
  // The window leaves keys 1 to 3, the range 0 to 2, the bits 0, 1 and 3.
  const oracle::Outputs outputs = run(c);
  EXPECT_EQ(outputs.at(REGARD_O).value[0], 2);
  EXPECT_EQ(outputs.at(REGARD_LSE).value[0], 0);
}

TEST(Oracle, LogicalLengthsMoveTheDiagonalAndLeaveTheRestAlone) {
  Case c = uniform("fwd fp32 b=1 h=1 s=4 d=1 mask=causal lengths lse");
  c.set(REGARD_LENGTHS_Q, 0, 2);
  c.set(REGARD_LENGTHS_K, 0, 3);
  const auto o = run(c).at(REGARD_O).value;
  EXPECT_EQ(o[0], 1.5);
  EXPECT_NEAR(o[1], 7.0 / 3, 1e-14);
  EXPECT_TRUE(std::isnan(o[2]));
  EXPECT_TRUE(std::isnan(o[3]));
}

TEST(Oracle, VarlenSequencesDoNotSeeEachOther) {
  Case c = uniform("fwd fp32 b=3 h=1 sq=2 sk=2 tq=3 tk=4 d=1 varlen lse");
  const int offsets_q[] = {0, 1, 1, 3}, offsets_k[] = {0, 2, 2, 4};
  for (int i = 0; i < 4; ++i) {
    c.set(REGARD_OFFSETS_Q, i, offsets_q[i]);
    c.set(REGARD_OFFSETS_K, i, offsets_k[i]);
  }
  const auto o = run(c).at(REGARD_O).value;
  EXPECT_EQ(o[0], 1.5);
  EXPECT_EQ(o[1], 6);
  EXPECT_EQ(o[2], 6);
}

TEST(Oracle, AlibiCountsFromTheBottomRightDiagonal) {
  Case c = uniform("fwd fp32 b=1 h=1 sq=1 sk=3 d=1 bias=alibi lse");
  c.set(REGARD_ALIBI, 0, 0.5);
  const double sum = std::exp(-1.0) + std::exp(-0.5) + 1;
  EXPECT_NEAR(run(c).at(REGARD_LSE).value[0], std::log(sum), 1e-14);
}

TEST(Oracle, LearnedSinkTakesPartOfTheWeight) {
  Case c = uniform("fwd fp32 b=1 h=1 sq=1 sk=2 d=1 sink lse");
  c.set(REGARD_SINK, 0, std::log(2.0f));
  const oracle::Outputs outputs = run(c);
  EXPECT_NEAR(outputs.at(REGARD_O).value[0], 3.0 / 4, 1e-7);
  EXPECT_NEAR(outputs.at(REGARD_LSE).value[0], std::log(4.0), 1e-7);
}

TEST(Oracle, EmptyRowWithSinkHasTheSinkAsLse) {
  Case c("fwd fp32 b=1 h=1 sq=1 sk=0 d=4 sink lse");
  c.set(REGARD_SINK, 0, 1.25);
  const oracle::Outputs outputs = run(c);
  EXPECT_EQ(outputs.at(REGARD_O).value, std::vector<double>(4, 0.0));
  EXPECT_EQ(outputs.at(REGARD_LSE).value[0], 1.25);
}

TEST(Oracle, SinkOfMinusInfinityIsNoSink) {
  Case with("bwd fp32 b=1 h=1 sq=2 sk=3 d=4 sink"), without("bwd fp32 b=1 h=1 sq=2 sk=3 d=4");
  with.set(REGARD_SINK, 0, -infinity);
  for (const regard_role role : {REGARD_Q, REGARD_K, REGARD_V, REGARD_GRAD_O})
    for (std::int64_t i = 0; i < with.count(role); ++i) without.set(role, i, with.get(role, i));
  with.compute_forward_inputs();
  without.compute_forward_inputs();
  const oracle::Outputs a = run(with), b = run(without);
  EXPECT_EQ(a.at(REGARD_GRAD_Q).value, b.at(REGARD_GRAD_Q).value);
  EXPECT_EQ(a.at(REGARD_GRAD_SINK).value[0], 0);
}

TEST(Oracle, SoftcapBoundsTheScore) {
  Case c("fwd fp32 b=1 h=1 sq=1 sk=1 d=1 scale=1 softcap=2 lse");
  c.set(REGARD_Q, 0, 3);
  c.set(REGARD_K, 0, 1);
  EXPECT_NEAR(run(c).at(REGARD_LSE).value[0], 2 * std::tanh(1.5), 1e-14);
}

TEST(Oracle, ABiasIsAddedBehindTheSoftcap) {
  Case c("fwd fp32 b=1 h=1 sq=1 sk=1 d=1 scale=1 softcap=2 bias=11 lse");
  c.set(REGARD_Q, 0, 3);
  c.set(REGARD_K, 0, 1);
  c.set(REGARD_BIAS, 0, 40);
  EXPECT_NEAR(run(c).at(REGARD_LSE).value[0], 2 * std::tanh(1.5) + 40, 1e-13);
}

TEST(Oracle, HugelyNegativeLogitsAreNotMasked) {
  CaseOptions options;
  options.bias_offset = -1e30;
  Case c("fwd fp32 b=1 h=1 sq=2 sk=3 d=2 bias=bh lse", options);
  const oracle::Outputs outputs = run(c);
  for (const double lse : outputs.at(REGARD_LSE).value) EXPECT_NEAR(lse, -1e30, 1e24);
  for (const double o : outputs.at(REGARD_O).value) EXPECT_NE(o, 0);
}

TEST(Oracle, DescaleFactorsMultiplyTheInputs) {
  Case c("fwd fp8 b=1 h=1 sq=1 sk=1 d=1 scale=1 descale=tensor out=fp32 lse");
  c.set(REGARD_Q, 0, 2);
  c.set(REGARD_K, 0, 3);
  c.set(REGARD_V, 0, 5);
  c.set(REGARD_DESCALE_Q, 0, 0.5);
  c.set(REGARD_DESCALE_K, 0, 0.25);
  c.set(REGARD_DESCALE_V, 0, 4);
  const oracle::Outputs outputs = run(c);
  EXPECT_EQ(outputs.at(REGARD_O).value[0], 20);
  EXPECT_EQ(outputs.at(REGARD_LSE).value[0], 0.75);
}

TEST(Oracle, DropoutKeepsItsTrueShareAndStaysUnbiased) {
  Case c = uniform("fwd fp32 b=2 h=2 s=128 d=1 dropout=0.25 dropout_mask");
  for (std::int64_t j = 0; j < c.count(REGARD_V); ++j) c.set(REGARD_V, j, 1);
  const oracle::Outputs outputs = run(c);
  const auto& mask = outputs.at(REGARD_DROPOUT_MASK).value;
  const double kept = std::accumulate(mask.begin(), mask.end(), 0.0) / static_cast<double>(mask.size());
  const double probability = (std::floor(0.75 * 255) + 1) / 256;
  EXPECT_NEAR(kept, probability, 4 * std::sqrt(0.25 * 0.75 / static_cast<double>(mask.size())));
  const auto& o = outputs.at(REGARD_O).value;
  EXPECT_NEAR(std::accumulate(o.begin(), o.end(), 0.0) / static_cast<double>(o.size()), kept / probability,
              1e-12);
}

TEST(Oracle, WhatDropoutKeepsIsScaledAsTheCallerSays) {
  Case by_itself = uniform("fwd fp32 b=1 h=1 s=16 d=1 dropout=0.25");
  Case as_said = uniform("fwd fp32 b=1 h=1 s=16 d=1 dropout=0.25 keep_scale=3");
  for (Case* c : {&by_itself, &as_said})
    for (std::int64_t j = 0; j < c->count(REGARD_V); ++j) c->set(REGARD_V, j, 1);
  const auto own = run(by_itself).at(REGARD_O).value, said = run(as_said).at(REGARD_O).value;
  const double factor = 256 / (std::floor(0.75 * 255) + 1);
  for (std::size_t i = 0; i < own.size(); ++i) EXPECT_NEAR(said[i], own[i] / factor * 3, 1e-12);
}

TEST(Oracle, SampledRowsAreThoseOfTheWhole) {
  Case c("fwd fp32 b=1 h=2 sq=20 sk=9 d=4 mask=causal lse");
  const auto whole = run(c).at(REGARD_LSE).value, some = run(c, {1, 5, 0}).at(REGARD_LSE).value;
  int computed = 0;
  for (std::size_t i = 0; i < whole.size(); ++i) {
    if (std::isnan(some[i])) continue;
    EXPECT_EQ(some[i], whole[i]);
    ++computed;
  }
  EXPECT_EQ(computed, 2 * 5);
  EXPECT_FALSE(std::isnan(some[0]));
  EXPECT_FALSE(std::isnan(some[19]));
}

TEST(Oracle, NamesAMissingTensor) {
  Case c("fwd fp32 b=1 h=1 s=4 d=4");
  c.arguments().tensor[REGARD_K].data = nullptr;
  const auto missing = oracle::run(c.problem(), c.arguments());
  ASSERT_FALSE(missing);
  EXPECT_NE(missing.error().message.find("'k'"), std::string::npos);
}

}  // namespace
}  // namespace regard::test
