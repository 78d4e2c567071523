#include <gmock/gmock.h>

#include <set>

#include "base/text.h"
#include "problem/document.h"
#include "problem/other_names.h"
#include "random_problem.h"

namespace regard {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

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
      "fwd fp8_fnuz b=1 h=4 s=64 d=64 out=fp8_fnuz",
      "fwd bf16 b=3 h=4 s=64 d=64 varlen lengths ranges bits tq=100 tk=120",
      "append bf16 b=2 h=4 s=64 d=64 table=sglang rope=half rotary=32 paged=32 snew=8",
      "fwd bf16 b=2 h=4 s=64 d=64 kv=int8 descale=token left_padding snew=8 tnew=9 cache=3",
      "append fp16 b=2 h=4 s=64 d=64 rope=half rotary=6 rope_type=fp32 positions=token slots=int64 tnew=5",
      "append fp16 b=2 h=4 s=64 d=64 rope=interleaved rotary=6 positions=sequence rope_rows=99",
      "merge fp16 b=2 h=4 s=64 d=64 out=fp32 lse accumulate parts=7",
  };
  for (const char* line : lines) EXPECT_EQ(print(parsed(line)), line);
}

/// A signature has no window. What would be suggested instead has the caller's value, which is no word
/// either.
TEST(ProblemText, SuggestionsLeadToNoOthers) {
  for (const char* word : {"mask=window:window:1,2", "window:=window:i,1", "window=window:1"}) {
    EXPECT_FALSE(parse_signature(word)) << word;
    EXPECT_FALSE(parse(word)) << word;
  }
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
  EXPECT_EQ(parsed("fwd fp16").bias_type, DType::fp16);
  EXPECT_EQ(parsed("fwd fp8").bias_type, DType::fp32);
  EXPECT_EQ(parsed("bias_type=fp32 fwd fp16").bias_type, DType::fp32);
  EXPECT_EQ(parsed("fwd fp16").kv, DType::fp16);
  EXPECT_EQ(parsed("fwd fp8").kv, DType::fp8);
  EXPECT_EQ(parsed("kv=int8 fwd fp16").kv, DType::int8);
  EXPECT_EQ(parsed("append fp16").rope_type, DType::fp16);
  EXPECT_EQ(parsed("rope_type=fp32 append fp16").rope_type, DType::fp32);
}

TEST(ProblemText, ABiasOfTheUsualTypeHasNoWord) {
  const std::string sizes = " b=1 h=2 s=8 d=16 bias=bh";
  EXPECT_EQ(print(parsed("fwd fp16" + sizes + " bias_type=fp16")), "fwd fp16" + sizes);
  EXPECT_EQ(print(parsed("fwd fp32" + sizes + " bias_type=fp32")), "fwd fp32" + sizes);
  EXPECT_EQ(print(parsed("fwd fp8" + sizes + " bias_type=fp32")), "fwd fp8" + sizes);
  const std::string apart = "bwd fp16" + sizes + " bias_type=fp32 dbias";
  EXPECT_EQ(print(parsed(apart)), apart);
}

TEST(ProblemText, Aliases) {
  EXPECT_EQ(parsed("fwd half").dtype, DType::fp16);
  EXPECT_EQ(parsed("fwd float16").dtype, DType::fp16);
  EXPECT_EQ(parsed("fwd f32").dtype, DType::fp32);
  EXPECT_EQ(parsed("fwd bfloat16").dtype, DType::bf16);
  EXPECT_EQ(parsed("fwd e4m3").dtype, DType::fp8);
  EXPECT_EQ(parsed("fwd bf8 out=e5m2").out, DType::fp8_e5m2);
  EXPECT_EQ(parsed("fwd e4m3fnuz").dtype, DType::fp8_fnuz);
  EXPECT_EQ(parsed("fwd e5m2fnuz").dtype, DType::fp8_e5m2_fnuz);
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
      {"fwd mask", "mask needs a value, as in mask=causal"},
      {"fwd mask=", "mask needs a value, as in mask=causal"},
      {"fwd s", "s needs a number, as in s=512"},
      {"fwd h=", "h needs a number, as in h=512"},
      {"fwd scale", "scale needs a number, as in scale=0.125"},
      {"fwd dropout=", "dropout needs a number, as in dropout=0.125"},
      {"fwd =5", "'=5' has no name"},
      {"fwd lse=1", "lse takes no value"},
      {"fwd b=1 b=2", "'b=1' and 'b=2' disagree about b"},
      {"fwd h=4 hk=2", "'h=4' and 'hk=2' disagree about hk"},
      {"fwd bwd", "'fwd' and 'bwd' disagree about pass"},
      {"fwd mask=causal mask=none", "disagree about mask"},
      {"fwd b=", "b needs a number, as in b=512"},
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
      {"fwd mask=window", "'mask=window' needs two numbers"},
      {"fwd mask=window_top_left", "'mask=window_top_left' needs two numbers"},
      {"fwd mask=window=3,0", "unknown mask 'window=3,0'; did you mean 'window:3,0'?"},
      {"fwd mask=full", "unknown mask 'full'; did you mean 'none'?"},
      {"fwd mask=off", "unknown mask 'off'; did you mean 'none'?"},
      {"fwd mask=is_causal", "unknown mask 'is_causal'; did you mean 'causal'?"},
      {"fwd bias=False", "unknown bias 'False'; did you mean 'none'?"},
      {"fwd table=0", "unknown table '0'; one of: vllm, sglang"},
      {"fwd layout=nhd", "unknown layout 'nhd'; did you mean 'bshd'?"},
      {"fwd out=float64",
       "unknown out 'float64'; one of: fp32, bf16, fp16, fp8, fp8_e5m2, int8, fp8_fnuz, "
       "fp8_e5m2_fnuz"},
      {"fwd float64",
       "unknown word 'float64'; the types are fp32, bf16, fp16, fp8, fp8_e5m2, int8, fp8_fnuz "
       "and fp8_e5m2_fnuz"},
      {"fwd fp64", "unknown word 'fp64'; the types are"},
      {"fwd seed=3", "unknown word 'seed=3'; a seed is an argument of the call and no part of the problem"},
      {"fwd Seed:3", "regard run takes it as --seed"},
      {"fwd threads=2", "the number of threads is an option of the call"},
      {"fwd mask=window:1", "needs two numbers"},
      {"fwd mask=window:a,0", "window left=a is not a whole number"},
      {"fwd mask=window:1,0,topleft", "'topleft' in 'mask=window:1,0,topleft' is not understood"},
      {"fwd mask=window:1,0,sink=x", "sink=x is not a whole number"},
      {"fwd mask=window:1,0,sink=", "sink needs a number"},
      {"fwd mask=window:,0", "window left needs a number"},
      {"fwd mask=window:1,1,sink=0,sink=5", "'sink=5' in 'mask=window:1,1,sink=0,sink=5' is not understood"},
      {"fwd mask=window:1,1,sink=5,sink=5", "is not understood"},
      {"fwd mask=window:1,1,top_left,top_left", "'top_left' in"},
      {"fwd mask=window:1,1,", "'' in"},
      {"fwd mask=causal,sink=4", "unknown mask 'causal,sink=4'"},
      {"fwd mask=causal,top_left", "unknown mask 'causal,top_left'; did you mean 'causal_top_left'?"},
      {"fwd dropout=0x1p-3", "dropout=0x1p-3 is not a finite number"},
      {"fwd dropout=1e-999", "dropout=1e-999 is not a finite number"},
      {"fwd softcap=-inf", "is not a finite number"},
      {"fwd scale=+0.1", "is not a finite number"},
      {"fwd bias=hb", "unknown bias 'hb'"},
      {"fwd splits=many", "splits=many is not a whole number"},
  };
  for (const auto& [text, message] : table) EXPECT_THAT(refusal(text), HasSubstr(message)) << text;
}

TEST(ProblemText, EveryWordSaysWhatValueItTakes) {
  for (const WordHelp& help : word_help()) {
    const std::string name = help.word.substr(0, help.word.find('='));
    if (name == help.word) {
      if (name.find('|') != std::string::npos) continue;  // pass and dtype are words themselves
      for (const char* value : {"1", "0", "yes", "true", ""})
        EXPECT_THAT(refusal("fwd " + name + "=" + value), HasSubstr(name + " takes no value")) << name;
      continue;
    }
    for (const std::string& word : {name, name + "="})
      EXPECT_THAT(refusal("fwd " + word), StartsWith(name + " needs a ")) << word;
    const std::string message = refusal("fwd " + name);
    const std::string example = message.substr(message.rfind(' ') + 1);
    EXPECT_TRUE(parse("fwd " + example)) << message;
  }
}

TEST(ProblemText, KnowsWhatOtherLibrariesCallIt) {
  const std::pair<const char*, const char*> table[] = {
      {"is_causal", "'mask=causal', in Python causal=True?"},
      {"is_causal=True", "'mask=causal', in Python"},
      {"causal", "'mask=causal'?"},
      {"causal=1", "'mask=causal'?"},
      {"CAUSAL", "'mask=causal'?"},
      {"softmax_scale", "'scale=0.125'?"},
      {"softmax_scale=0.5", "'scale=0.5'?"},
      {"sm_scale=0.25", "'scale=0.25'?"},
      {"FWD", "'fwd'?"},
      {"BF16", "'bf16'?"},
      {"Mask=Causal", "'mask=causal'?"},
      {"S=512", "'s=512'?"},
      {"s:512", "'s=512'?"},
      {"mask:causal", "'mask=causal'?"},
      {"batch", "'b=2'?"},
      {"batch=3", "'b=3'?"},
      {"batch-size=3", "'b=3'?"},
      {"window", "'mask=window:128,0', in Python window=(128, 0)?"},
      {"window=3,0", "'mask=window:3,0', in Python window=(3, 0)?"},
      {"window:3,0", "'mask=window:3,0', in Python window=(3, 0)?"},
      {"window:3", "'mask=window:3,0', in Python window=(3, 0)?"},
      {"window=-1,2,top_left", "'mask=window:-1,2,top_left'?"},
      {"mqa", "'hk=1'?"},
      {"gqa", "'hk=4'?"},
      {"no_mask", "'mask=none', which is the default?"},
      {"non_causal", "'mask=none', which is the default?"},
      {"causal=0", "'mask=none', which is the default?"},
      {"is_causal=False", "'mask=none', which is the default?"},
      {"is_causal=None", "'mask=none', which is the default?"},
      {"has_alibi=false", "'bias=none', which is the default?"},
      {"window_size=(3,0)", "'mask=window:3,0', in Python"},
      {"sliding_window=128", "'mask=window:128,0', in Python"},
      {"heads", "'h=16'?"},
      {"num_heads=4", "'h=4'?"},
      {"num_head=4", "'h=4'?"},
      {"kv_heads=2", "'hk=2'?"},
      {"num_key_value_heads", "'hk=4'?"},
      {"seqlen=77", "'s=77'?"},
      {"seq_len", "'s=1024'?"},
      {"max_seqlen_k=9", "'sk=9'?"},
      {"head_dim=80", "'d=80'?"},
      {"headdim", "'d=128'?"},
      {"dropout_p=0.2", "'dropout=0.2'?"},
      {"dropout_p=x", "'dropout=0.1'?"},
      {"alibi_slopes", "'bias=alibi', with the slopes as the tensor alibi?"},
      {"alibi", "'bias=alibi'?"},
      {"logit_cap=50", "'softcap=50'?"},
      {"logits_soft_cap", "'softcap=30'?"},
      {"soft_cap=20", "'softcap=20'?"},
      {"block_table", "'paged=16', with the tensor page_table?"},
      {"page_size=64", "'paged=64'?"},
      {"block_table=[[0]]", "'paged=16', with"},
      {"cu_seqlens", "'varlen', with the tensors offsets_q and offsets_k?"},
      {"cache_seqlens", "'lengths', with"},
      {"return_lse", "'lse'?"},
      {"attn_mask", "'bits', for a boolean mask, or bias=bh"},
      {"attn_bias", "'bias=bh'?"},
      {"attn_mask_dtype=float32", "'bias_type=float32'?"},
      {"float8_e5m2", "'fp8_e5m2'?"},
      {"torch.float8_e4m3fnuz", "'fp8_fnuz'?"},
      {"float8_e5m2fnuz", "'fp8_e5m2_fnuz'?"},
      {"num_splits=8", "'splits=8'?"},
      {"head", "'descale=head'?"},
      {"bshd", "'layout=bshd'?"},
      {"score_mod", "'score=s*2.0', a function"},
      {"mask_mod", "'keep=kv<q', a function"},
  };
  for (const auto& [word, answer] : table) {
    const std::string message = refusal("fwd " + std::string(word));
    EXPECT_THAT(message, HasSubstr("; did you mean " + std::string(answer))) << word;
  }
}

TEST(ProblemText, EveryOtherNameLeadsToAWord) {
  std::set<std::string> seen;
  for (const OtherNames& row : other_name_table()) {
    EXPECT_TRUE(parse(row.word)) << row.word;
    for (const std::string_view name : split(row.names, " ")) {
      EXPECT_TRUE(seen.emplace(name).second) << name << " is listed twice";
      EXPECT_FALSE(parse(name)) << name << " is a word itself";
      const Result<Problem> pair = parse(std::string(name) + "=");
      EXPECT_THAT(pair.error().message, Not(HasSubstr(" needs a"))) << name << " is a word itself";
    }
  }
}

TEST(ProblemText, WhatIsDeniedIsNotSuggested) {
  EXPECT_THAT(refusal("fwd is_causal=False"), Not(HasSubstr("causal=True")));
  EXPECT_THAT(refusal("fwd return_lse=0"), HasSubstr("; leave it out, as 'lse' is off unless it is written"));
  EXPECT_THAT(refusal("fwd non_causal=0"), Not(HasSubstr("did you mean 'mask=none'")));
}

TEST(ProblemText, WordsOfOtherRecordsAreNotSuggested) {
  const Result<Signature> signature = parse_signature("fwd batch=2");
  ASSERT_FALSE(signature);
  EXPECT_THAT(signature.error().message, Not(HasSubstr("'b=2'")));
}

TEST(ProblemText, NoWordIsItsOwnSuggestion) {
  std::vector<std::string> words;
  for (const WordHelp& help : word_help())
    words.push_back(help.word.substr(0, help.word.find_first_of("=|")));
  for (const std::string& name : words)
    for (const std::string& word :
         {name, name + "=", name + "=?", name + ":", name + ":1", name + "x", "x" + name})
      if (const Result<Problem> problem = parse(word); !problem) {
        EXPECT_THAT(problem.error().message, Not(HasSubstr("did you mean '" + word + "'"))) << word;
      }
}

TEST(ProblemText, ZeroHasNoSign) {
  for (const char* field : {"dropout", "softcap", "scale"}) {
    const std::string name(field);
    EXPECT_EQ(to_json(parsed("fwd " + name + "=-0")), to_json(parsed("fwd " + name + "=0")));
    EXPECT_EQ(to_json(parsed("fwd " + name + "=-0.0e5")), to_json(parsed("fwd " + name + "=0")));
    const Result<Problem> minus = problem_from_json("{\"" + name + "\": -0.0}");
    ASSERT_TRUE(minus) << minus.error().message;
    EXPECT_EQ(to_json(*minus), to_json(parsed("fwd " + name + "=0")));
    EXPECT_EQ(print(*minus), print(parsed("fwd " + name + "=0")));
  }
}

TEST(ProblemText, SameWordTwiceIsFine) {
  EXPECT_EQ(parsed("fwd fwd b=2 b=2 h=4 hq=4"), parsed("fwd b=2 h=4"));
}

TEST(ProblemText, ApplyChangesOneWord) {
  Problem problem = parsed("fwd bf16 b=2 h=16 s=1024 d=128 mask=window:8,0,sink=2");
  for (const char* word : {"s=4096", "fp16", "d=64", "mask=causal", "lse"}) EXPECT_TRUE(apply(problem, word));
  EXPECT_EQ(print(problem), "fwd fp16 b=2 h=16 s=4096 d=64 mask=causal lse");
  for (const char* word : {"bias=bh", "bias_type=fp32", "bf16"}) EXPECT_TRUE(apply(problem, word));
  EXPECT_EQ(print(problem), "fwd bf16 b=2 h=16 s=4096 d=64 mask=causal bias=bh bias_type=fp32 lse");
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
