#include <gmock/gmock.h>

#include "random_problem.h"

namespace regard {
namespace {

using ::testing::HasSubstr;

Problem parsed(std::string_view text) {
  const Result<Problem> problem = parse(text);
  EXPECT_TRUE(problem) << text << ": " << problem.error().message;
  return problem ? *problem : Problem{};
}

std::string refusal(std::string_view text) {
  const Result<Problem> problem = parse(text);
  EXPECT_FALSE(problem) << text << " parsed as " << print(*problem);
  return problem ? "" : problem.error().message;
}

TEST(ProblemText, PrintsCanonically) {
  const char* lines[] = {
      "fwd bf16 b=2 hq=16 hk=4 s=1024 d=128 mask=causal",
      "bwd fp16 b=1 h=8 s=2048 d=64 mask=window:128,0 deterministic dropout=0.1",
      "fwd fp8 b=4 hq=32 hk=8 sq=1 sk=32768 d=128 lse paged=16",
      "fwd fp32 b=1 h=1 s=0 d=192 dv=128",
      "fwd bf16 b=1 h=4 s=64 d=64 mask=window:-1,3,top_left,sink=4 softcap=50 scale=0.125",
      "fwd fp8_e5m2 b=1 h=4 s=64 d=64 out=fp32 descale=head",
      "fwd bf16 b=3 h=4 s=64 d=64 varlen lengths ranges bits tq=100 tk=120",
      "append bf16 b=2 h=4 s=64 d=64 paged=32 table=sglang rope=half rotary=32 snew=8",
  };
  for (const char* line : lines) EXPECT_EQ(print(parsed(line)), line);
}

TEST(ProblemText, DesignExamplesParse) {
  EXPECT_EQ(print(parsed("fwd bf16 b=2 hq=16 hk=4 sq=1024 sk=1024 d=128 mask=causal")),
            "fwd bf16 b=2 hq=16 hk=4 s=1024 d=128 mask=causal");
  EXPECT_EQ(print(parsed("bwd fp16 b=1 h=8 s=2048 d=64 mask=window:128,0 dropout=0.1 deterministic")),
            "bwd fp16 b=1 h=8 s=2048 d=64 mask=window:128,0 deterministic dropout=0.1");
  EXPECT_EQ(print(parsed("fwd fp8 b=4 hq=32 hk=8 sq=1 sk=32768 d=128 paged=16 splits=auto lse")),
            "fwd fp8 b=4 hq=32 hk=8 sq=1 sk=32768 d=128 lse paged=16");
}

TEST(ProblemText, RoundTripsRandomProblems) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 10000; ++i) {
    const Problem problem = random_record<Problem>(random);
    const std::string text = print(problem);
    const Result<Problem> again = parse(text);
    ASSERT_TRUE(again) << text << ": " << again.error().message;
    ASSERT_EQ(*again, problem) << text << "\n" << to_json(problem) << "\n" << to_json(*again);
    ASSERT_EQ(print(*again), text);
  }
}

TEST(ProblemText, RoundTripsRandomSignatures) {
  std::mt19937_64 random(2);
  for (int i = 0; i < 10000; ++i) {
    const Signature signature = random_record<Signature>(random);
    const std::string text = print(signature);
    const Result<Signature> again = parse_signature(text);
    ASSERT_TRUE(again) << text << ": " << again.error().message;
    ASSERT_EQ(*again, signature) << text;
  }
}

TEST(ProblemText, OrderIsFree) {
  EXPECT_EQ(parsed("mask=causal d=64 h=2 bf16\ts=8   b=3 bwd"),
            parsed("bwd bf16 b=3 h=2 s=8 d=64 mask=causal"));
}

TEST(ProblemText, FollowingFields) {
  EXPECT_EQ(parsed("fwd d=64").dv, 64);
  EXPECT_EQ(parsed("fwd dv=64").d, 64);
  EXPECT_EQ(parsed("fwd dv=32 d=64").dv, 32);
  EXPECT_EQ(parsed("fwd fp16").out, DType::fp16);
  EXPECT_EQ(parsed("fwd fp8").out, DType::bf16);
  EXPECT_EQ(parsed("out=fp32 fwd fp8").out, DType::fp32);
}

TEST(ProblemText, Aliases) {
  EXPECT_EQ(parsed("fwd half").dtype, DType::fp16);
  EXPECT_EQ(parsed("fwd float16").dtype, DType::fp16);
  EXPECT_EQ(parsed("fwd f32").dtype, DType::fp32);
  EXPECT_EQ(parsed("fwd bfloat16").dtype, DType::bf16);
  EXPECT_EQ(parsed("fwd e4m3").dtype, DType::fp8);
  EXPECT_EQ(parsed("fwd bf8 out=e5m2").out, DType::fp8_e5m2);
}

TEST(ProblemText, CausalKeepsTheWindowUnbounded) {
  const Problem problem = parsed("fwd mask=causal");
  EXPECT_EQ(problem.window_left, -1);
  EXPECT_EQ(problem.window_right, -1);
}

TEST(ProblemText, MayBeOfAnyLength) {
  std::string many = "fwd fp32 b=1 h=1 s=8 d=16";
  for (int i = 0; i < 200'000; ++i) many += " lse";
  EXPECT_TRUE(parse(many));
  const Result<Problem> refused = parse("fwd mask=window:1,0" + std::string(1'000'000, ','));
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("has too many parts"));
}

TEST(ProblemText, RefusesInOneSentence) {
  const std::pair<const char*, const char*> table[] = {
      {"", "the text is empty"},
      {"fwd mask=causl", "unknown mask 'causl'; did you mean 'causal'?"},
      {"fwd maks=causal", "unknown word 'maks=causal'; did you mean 'mask'?"},
      {"forward bf16", "unknown word 'forward'"},
      {"fwd bf61", "unknown word 'bf61'; did you mean 'bf16'?"},
      {"fwd determinstic", "did you mean 'deterministic'?"},
      {"fwd causal", "did you mean 'mask=causal'?"},
      {"fwd mask", "'mask' needs a value: mask=..."},
      {"fwd lse=1", "lse takes no value"},
      {"fwd b=1 b=2", "'b=1' and 'b=2' disagree about b"},
      {"fwd h=4 hk=2", "'h=4' and 'hk=2' disagree about hk"},
      {"fwd bwd", "'fwd' and 'bwd' disagree about pass"},
      {"fwd mask=causal mask=none", "disagree about mask"},
      {"fwd b=", "b= is not a whole number"},
      {"fwd b=1e3", "b=1e3 is not a whole number"},
      {"fwd b=0x10", "b=0x10 is not a whole number"},
      {"fwd b=+1", "b=+1 is not a whole number"},
      {"fwd b=1.0", "b=1.0 is not a whole number"},
      {"fwd s=9223372036854775808", "below 2^63"},
      {"fwd dropout=nan", "dropout=nan is not a finite number"},
      {"fwd softcap=inf", "softcap=inf is not a finite number"},
      {"fwd softcap=1e999", "softcap=1e999 is not a finite number"},
      {"fwd scale=0.1x", "scale=0.1x is not a finite number"},
      {"fwd mask=window", "mask=window:L,R[,top_left][,sink=N]"},
      {"fwd mask=window_top_left", "needs its numbers"},
      {"fwd mask=window:1", "needs two numbers"},
      {"fwd mask=window:a,0", "window left=a is not a whole number"},
      {"fwd mask=window:1,0,topleft", "'topleft' in 'mask=window:1,0,topleft' is not understood"},
      {"fwd mask=window:1,0,sink=x", "sink=x is not a whole number"},
      {"fwd bias=hb", "unknown bias 'hb'"},
      {"fwd splits=many", "splits=many is not a whole number"},
  };
  for (const auto& [text, message] : table) EXPECT_THAT(refusal(text), HasSubstr(message)) << text;
}

TEST(ProblemText, SameWordTwiceIsFine) {
  EXPECT_EQ(parsed("fwd fwd b=2 b=2 h=4 hq=4"), parsed("fwd b=2 h=4"));
}

TEST(ProblemText, ApplyChangesOneWord) {
  Problem problem = parsed("fwd bf16 b=2 h=16 s=1024 d=128 mask=window:8,0,sink=2");
  for (const char* word : {"s=4096", "fp16", "d=64", "mask=causal", "lse"}) EXPECT_TRUE(apply(problem, word));
  EXPECT_EQ(print(problem), "fwd fp16 b=2 h=16 s=4096 d=64 mask=causal lse");
  const Problem before = problem;
  EXPECT_FALSE(apply(problem, "sq=x"));
  EXPECT_EQ(problem, before);
}

TEST(SignatureText, IsTheProblemWithoutItsShape) {
  EXPECT_EQ(print(signature(parsed("fwd bf16 b=2 h=8 s=64 d=128 mask=causal softcap=30 scale=2"))),
            "fwd bf16 d=128 mask=causal softcap");
  EXPECT_EQ(print(signature(parsed("bwd fp16 b=2 h=8 s=64 d=192 dv=128 mask=window:3,4 dropout=0.5"))),
            "bwd fp16 d=192 dv=128 mask=window dropout");
}

TEST(SignatureText, RefusesShapeWords) {
  const Result<Signature> result = parse_signature("fwd bf16 d=64 b=2");
  ASSERT_FALSE(result);
  EXPECT_THAT(result.error().message, HasSubstr("unknown signature word 'b=2'"));
}

}  // namespace
}  // namespace regard
