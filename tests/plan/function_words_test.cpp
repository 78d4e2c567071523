// Functions that are words already have the plans of those words.
#include "plan/function_words.h"

#include <gmock/gmock.h>

#include "plan/plan.h"
#include "plan/target.h"

namespace regard {
namespace {

const std::string words = "fwd bf16 b=2 h=4 sq=64 sk=96 d=16";

std::string in_words_of(const std::string& function) {
  return print(in_words(*parse(words + " " + function))).substr(words.size());
}

TEST(FunctionsInWords, AreMasksAndCaps) {
  const struct {
    const char *function, *word;
  } cases[] = {
      {"keep=kv<=p", " mask=causal"},
      {"keep=kv<=q+sk-sq", " mask=causal"},
      {"keep=q>=kv", " mask=causal_top_left"},
      {"keep=kv<p+1", " mask=causal"},
      {"keep=kv<=p&&p-kv<17", " mask=window:16,0"},
      {"keep=q-kv<=5&&kv-q<3", " mask=window:5,2,top_left"},
      {"keep=kv-p<3", " mask=window:-1,2"},
      {"keep=(kv<4||p-kv<9)&&kv<=p", " mask=window:8,0,sink=4"},
      {"keep=kv<=p&&kv<=p+3", " mask=causal"},
      {"keep=kv<=p ranges bits lengths", " lengths mask=causal ranges bits"},
      {"score=20.0*tanh(s/20.0)", " softcap=20"},
      {"score=s", ""},
      {"score=tanh(s/0.5)*0.5 keep=kv<=p", " mask=causal softcap=0.5"},
  };
  for (const auto& [function, word] : cases) EXPECT_EQ(in_words_of(function), word) << function;
}

TEST(FunctionsInWords, StayWhatNoWordSays) {
  for (const char* function :
       {"keep=kv<=p&&q-kv<17", "keep=kv<p", "keep=kv<7", "keep=kv<=p||kv<7", "keep=kv<=2*p",
        "keep=kv<=p&&h>0", "keep=(kv<4||p-kv<9)&&p-kv<30", "keep=kv<=p mask=window:3,0",
        "keep=kv<=p score=s*2.0", "score=20.0*tanh(s/10.0)", "keep=kv<=p+1000000000",
        "keep=kv<=q+n[0] tensors=n:int32[1]"}) {
    const Result<Problem> problem = parse(words + " " + function);
    ASSERT_TRUE(problem) << problem.error().message;
    EXPECT_EQ(in_words(*problem), *problem) << function;
  }
}

TEST(FunctionsInWords, HaveTheSameKernels) {
  const Target& target = **find_target("sm_90a");
  Explanation explanation;
  const Result<Plan> of_function = plan(*parse(words + " keep=kv<=p"), target, {}, &explanation),
                     of_word = plan(*parse(words + " mask=causal"), target, {});
  ASSERT_TRUE(of_function) << of_function.error().message;
  EXPECT_EQ(print(of_function->stages[0].key), print(of_word->stages[0].key));
  EXPECT_THAT(to_text(explanation),
              testing::HasSubstr("its functions are words already: " + words + " mask=causal"));
  EXPECT_THAT(to_text(explanation), testing::StartsWith(words + " keep=kv<=p\n"));
}

}  // namespace
}  // namespace regard
