#include <gtest/gtest.h>

#include "problem/problem.h"

namespace regard {
namespace {

/// Computed from the definition in docs/semantics.md.
bool sees(const Problem& p, std::int64_t row, std::int64_t key) {
  const bool top_left = p.mask == Mask::causal_top_left || p.mask == Mask::window_top_left;
  const bool causal = p.mask == Mask::causal || p.mask == Mask::causal_top_left;
  const bool window = p.mask == Mask::window || p.mask == Mask::window_top_left;
  const std::int64_t distance = key - row - (top_left ? 0 : p.sk - p.sq);
  if (!window) return !causal || distance <= 0;
  const bool left = p.window_left < 0 || distance >= -p.window_left || key < p.sink_tokens;
  const bool right = p.window_right < 0 || distance <= p.window_right;
  return left && right;
}

void compare_with_counting(const std::string& text) {
  const Problem problem = *parse(text);
  double scores = 0;
  std::int64_t keys = 0;
  for (std::int64_t key = 0; key < problem.sk; ++key) {
    std::int64_t rows = 0;
    for (std::int64_t row = 0; row < problem.sq; ++row) rows += sees(problem, row, key);
    scores += static_cast<double>(rows);
    keys += rows > 0;
  }
  EXPECT_EQ(visible_scores(problem), scores) << text;
  EXPECT_EQ(visible_keys(problem), keys) << text;
}

TEST(VisibleScoresAndKeys, AgreeWithCounting) {
  for (const char* mask : {"none", "causal", "causal_top_left"}) {
    for (const auto& [sq, sk] :
         {std::pair(7, 7), std::pair(3, 9), std::pair(9, 3), std::pair(0, 4), std::pair(4, 0)}) {
      const std::string text =
          "fwd d=64 mask=" + std::string(mask) + " sq=" + std::to_string(sq) + " sk=" + std::to_string(sk);
      compare_with_counting(text);
    }
  }
  for (int left = -1; left < 12; ++left) {
    for (int right = -1; right < 12; ++right) {
      for (const char* rest :
           {" s=8", " sq=3 sk=9", " sq=9 sk=3", ",top_left s=8", ",top_left sq=3 sk=9", ",sink=2 s=8",
            ",sink=20 sq=9 sk=5", ",sink=4 sq=3 sk=9", ",top_left,sink=3 sq=9 sk=4"}) {
        const std::string text =
            "fwd d=64 mask=window:" + std::to_string(left) + "," + std::to_string(right) + rest;
        compare_with_counting(text);
      }
    }
  }
}

TEST(VisibleScores, HugeProblemsTakeNoTime) {
  const Problem problem = *parse("fwd s=1000000000 d=64 mask=causal");
  EXPECT_DOUBLE_EQ(visible_scores(problem), 1e9 * (1e9 + 1) / 2);
}

TEST(Flops, CountMultiplyAddsAsTwo) {
  EXPECT_EQ(flops(*parse("fwd b=2 hq=4 hk=2 sq=8 sk=16 d=32 dv=64")), 2.0 * 2 * 4 * 8 * 16 * (32 + 64));
  EXPECT_EQ(flops(*parse("bwd b=1 h=1 s=8 d=32")), 2.5 * 2 * 8 * 8 * 64);
  EXPECT_EQ(flops(*parse("fwd b=1 h=1 s=8 d=32 mask=causal")), 2.0 * 36 * 64);
  EXPECT_EQ(flops(*parse("append b=1 h=1 s=8 d=32 snew=1")), 0);
  EXPECT_EQ(flops(*parse("merge b=1 h=1 s=8 d=32 parts=3")), 0);
}

TEST(Scale, IsOfTheUnpaddedHeadDimension) {
  EXPECT_DOUBLE_EQ(scale_of(*parse("fwd d=59 dv=64")), 1 / std::sqrt(59.0));
  EXPECT_EQ(scale_of(*parse("fwd d=64 scale=0.5")), 0.5);
  EXPECT_EQ(scale_of(*parse("fwd d=64 scale=0")), 0);
}

TEST(Bias, KindsAreElementwiseOrAlibi) {
  for (const Bias bias : {Bias::one_one, Bias::one_head, Bias::batch_one, Bias::batch_head}) {
    EXPECT_TRUE(has_elementwise_bias(bias) && !has_alibi(bias)) << word(bias);
  }
  for (const Bias bias : {Bias::alibi, Bias::alibi_batch}) {
    EXPECT_TRUE(!has_elementwise_bias(bias) && has_alibi(bias)) << word(bias);
  }
  EXPECT_TRUE(!has_elementwise_bias(Bias::none) && !has_alibi(Bias::none));
}

TEST(DTypes, BytesAndDefaultOutput) {
  EXPECT_EQ(bytes_of(DType::fp32), 4u);
  EXPECT_EQ(bytes_of(DType::bf16), 2u);
  EXPECT_EQ(bytes_of(DType::fp16), 2u);
  EXPECT_EQ(bytes_of(DType::fp8), 1u);
  EXPECT_EQ(bytes_of(DType::fp8_e5m2), 1u);
  EXPECT_EQ(default_out(DType::fp32), DType::fp32);
  EXPECT_EQ(default_out(DType::fp8), DType::bf16);
  EXPECT_EQ(default_out(DType::fp8_e5m2_fnuz), DType::bf16);
}

}  // namespace
}  // namespace regard
