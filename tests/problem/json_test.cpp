#include <gmock/gmock.h>

#include "random_problem.h"

namespace regard {
namespace {

using ::testing::HasSubstr;

TEST(ProblemJson, RoundTripsRandomProblems) {
  std::mt19937_64 random(4);
  for (int i = 0; i < 10000; ++i) {
    const Problem problem = random_record<Problem>(random);
    const std::string json = to_json(problem);
    const Result<Problem> again = problem_from_json(json);
    ASSERT_TRUE(again) << json << ": " << again.error().message;
    ASSERT_EQ(*again, problem) << json;
  }
}

TEST(ProblemJson, MissingFieldsTakeTheirDefault) {
  const Result<Problem> problem =
      problem_from_json(R"({"dtype": "fp16", "d": 64, "hq": 4, "hk": 2, "sq": 8})");
  ASSERT_TRUE(problem) << problem.error().message;
  EXPECT_EQ(print(*problem), "fwd fp16 b=1 hq=4 hk=2 sq=8 sk=0 d=64");
  const Result<Problem> biased =
      problem_from_json(R"({"dtype": "fp16", "d": 64, "bias": "bh", "bias_type": "fp32"})");
  ASSERT_TRUE(biased) << biased.error().message;
  EXPECT_EQ(print(*biased), "fwd fp16 b=1 h=1 s=0 d=64 bias=bh bias_type=fp32");
}

TEST(ProblemJson, RefusesInOneSentence) {
  const std::pair<std::string, const char*> table[] = {
      {"", "not valid at byte"},
      {"{", "not valid at byte"},
      {"[1]", "is one object"},
      {"7", "is one object"},
      {R"({"causal": true})", "unknown key \"causal\" in a problem's JSON"},
      {R"({"maks": "none"})", "did you mean 'mask'?"},
      {R"({"h": 4})", "unknown key \"h\" in a problem's JSON; did you mean \"hq\": 4, \"hk\": 4?"},
      {R"({"s": null})", "did you mean \"sq\": 512, \"sk\": 512?"},
      {R"({"is_causal": true})", "did you mean \"mask\": \"causal\"?"},
      {R"({"window_size": 3})",
       "did you mean \"mask\": \"window\", \"window_left\": 3, \"window_right\": 0?"},
      {R"({"is_causal": false})", "did you mean \"mask\": \"none\"?"},
      {R"({"return_lse": false})", "did you mean \"lse\": false?"},
      {R"({"seed": 3})", "unknown key \"seed\" in a problem's JSON; a seed is an argument of the call"},
      {R"({"mask": "off"})", "unknown mask 'off'; did you mean 'none'?"},
      {R"({"batch_size": 3})", "did you mean \"b\": 3?"},
      {R"({"softmax_scale": 0.5})", "did you mean \"scale\": 0.5?"},
      {R"({"B": 3})", "did you mean \"b\": 3?"},
      {R"({"": 3})", "unknown key \"\""},
      {R"({"b": 1, "b": 2})", "\"b\" is given twice"},
      {R"({"b": "1"})", "\"b\": \"1\" is not a whole number"},
      {R"({"b": [1]})", "\"b\": a list is not a whole number"},
      {R"({"mask": {}})", "\"mask\": an object is not a word in quotes"},
      {"{\"b\": " + std::string(200'000, '[') + std::string(200'000, ']') + "}",
       "a list is not a whole number"},
      {R"({"b": 1.0})", "\"b\": 1.0 is not a whole number"},
      {R"({"b": 9223372036854775808})", "is not a whole number below 2^63"},
      {R"({"scale": 1e400})", "a number that no field can hold"},
      {R"({"lse": 1})", "\"lse\": 1 is not true or false"},
      {R"({"mask": "causl"})", "unknown mask 'causl'; did you mean 'causal'?"},
      {R"({"mask": 1})", "\"mask\": 1 is not a word in quotes"},
      {R"({"dropout": "0.1"})", "\"dropout\": \"0.1\" is not a number"},
      {R"({"scale": "x"})", "\"scale\": \"x\" is not a number"},
      {"{\"scale\": 1" + std::string(2'000'000, ' ') + "}", "bytes long, and no problem needs more"},
  };
  for (const auto& [json, message] : table) {
    const Result<Problem> problem = problem_from_json(json);
    ASSERT_FALSE(problem) << json;
    EXPECT_THAT(problem.error().message, HasSubstr(message)) << json;
  }
}

}  // namespace
}  // namespace regard
