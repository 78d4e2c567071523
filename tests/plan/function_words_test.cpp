// Functions that are words already have the plans of those words.
#include "plan/function_words.h"

#include <gmock/gmock.h>

#include "kernels/portable/bits_schedule.h"
#include "plan/kernel.h"
#include "plan/plan.h"
#include "plan/target.h"

namespace regard {
namespace {

const std::string words = "fwd bf16 b=2 h=4 sq=64 sk=96 d=16";

std::string in_words_of(const std::string& function, const std::string& before = words) {
  const Result<Problem> problem = parse(before + " " + function);
  if (!problem) return problem.error().message;
  const Result<FunctionWords> found = in_words(*problem);
  return found ? print(found->problem).substr(before.size()) : found.error().message;
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
    EXPECT_FALSE(in_words(*problem)) << function;
  }
}

TEST(FunctionsInWords, ReadATensorAsALiBi) {
  for (const char* function : {"score=s-slope[h]*abs(kv-p)", "score=s-abs(p-kv)*slope[h]",
                               "score=s+-slope[h]*abs(kv-p)", "score=-slope[h]*float(abs(q+sk-sq-kv))+s",
                               "score=s-slope[h]*abs(kv-q-32)", "score=s+-1.0*slope[h]*abs(float(kv-p))"})
    EXPECT_EQ(in_words_of(std::string(function) + " tensors=slope:fp32[1]"), " bias=alibi") << function;
  EXPECT_EQ(in_words_of("score=s-slope[b,h]*abs(kv-p) tensors=slope:fp32[2]"), " bias=alibi_b");
  EXPECT_EQ(in_words_of("score=9.0*tanh(s/9.0)-slope[h]*abs(kv-p) tensors=slope:fp32[1]"),
            " bias=alibi softcap=9");
  // Without abs where no key after p is seen.
  EXPECT_EQ(in_words_of("score=s+slope[h]*(kv-p) keep=kv<=p tensors=slope:fp32[1]"),
            " mask=causal bias=alibi");
  EXPECT_EQ(in_words_of("score=s-(p-kv)*slope[h] mask=window:9,0 tensors=slope:fp32[1]"),
            " mask=window:9,0 bias=alibi");
  EXPECT_EQ(
      in_words_of("score=s+slope[h]*(kv-q) keep=q>=kv tensors=slope:fp32[1]", "fwd bf16 b=2 h=4 s=64 d=16"),
      " mask=causal_top_left bias=alibi");
}

TEST(FunctionsInWords, DoNotReadOtherDistancesAsALiBi) {
  const struct {
    const char *function, *why;
  } cases[] = {
      {"score=s+slope[h]*abs(kv-p)", "no word says score"},
      {"score=s-slope[h]*abs(kv-q)", "no word says score"},
      {"score=s-slope[h]*abs(kv-p-1)", "no word says score"},
      {"score=s-slope[hk]*abs(kv-p)", "no word says score"},
      {"score=s-slope[h]*slope[h]*abs(kv-p)", "no word says score"},
      {"score=s-slope[h]*0.5*abs(kv-p)", "no word says score"},
      {"score=s*2.0-slope[h]*abs(kv-p)", "no word says score"},
      {"score=s-slope[h]*(kv-p) keep=kv<=p", "no word says score"},
      {"score=s-slope[h]*abs(kv-p) keep=kv<7", "no word says keep"},
      {"score=s+slope[h]*(kv-p)",
       "slope*(kv-p) is ALiBi only where no row sees a key after p, as with keep=kv<=p; -slope*abs(kv-p) "
       "always"},
      {"score=s-slope[h]*abs(kv-q-32) lengths", "no word says score"},
  };
  for (const auto& [function, why] : cases)
    EXPECT_EQ(in_words_of(std::string(function) + " tensors=slope:fp32[1]"), why) << function;
  EXPECT_EQ(in_words_of("score=s-slope[h]*abs(kv-p) tensors=slope:fp32[1] grads=slope",
                        "bwd bf16 b=2 h=4 sq=64 sk=96 d=16"),
            "ALiBi as a word has no gradient of slope");
  EXPECT_EQ(
      in_words_of("score=s+slope[h]*(kv-p) keep=kv<=q tensors=slope:fp32[1]",
                  "fwd bf16 b=2 h=4 sq=96 sk=64 d=16"),
      "slope*(kv-p) is ALiBi only where no row sees a key after p, as with keep=kv<=p; -slope*abs(kv-p) "
      "always");
}

TEST(FunctionsInWords, ReadATensorAsAnElementwiseBias) {
  const struct {
    const char *function, *word;
  } cases[] = {
      {"score=s+m[b,h,q,kv] tensors=m:fp32[4]", " bias=bh bias_type=fp32"},
      {"score=m[kv,q,h]+s tensors=m:fp32[3]", " bias=1h bias_type=fp32"},
      {"score=s+m[b,0,q,kv] tensors=m:fp32[4]", " bias=b1 bias_type=fp32"},
      {"score=s+m[q,kv] keep=kv<=p tensors=m:fp32[2]", " mask=causal bias=11 bias_type=fp32"},
      {"score=s+m[b,kv] tensors=m:fp32[2]", " bias=b1 bias_type=fp32"},
      {"score=s-m[q,kv] tensors=m:fp32[2]", "no word says score"},
      {"score=s+m[q,kv] tensors=m:int32[2]", "no word says score"},
      {"score=s+m[p,kv] tensors=m:fp32[2]", "no word says score"},
      {"score=s+m[1,q,kv] tensors=m:fp32[3]", "no word says score"},
      {"score=s+m[q,kv-1] tensors=m:fp32[2]", "no word says score"},
      {"score=s+m[kv,kv] tensors=m:fp32[2]", "no word says score"},
      {"score=s+m[b,h,q] tensors=m:fp32[3]", "m is the same for all keys, and no word says that"},
  };
  for (const auto& [function, word] : cases) EXPECT_EQ(in_words_of(function), word) << function;
  const std::string bwd = "bwd bf16 b=2 h=4 sq=64 sk=96 d=16";
  EXPECT_EQ(in_words_of("score=s+m[h,q,kv] tensors=m:fp32[3] grads=m", bwd), " bias=1h bias_type=fp32 dbias");
  EXPECT_EQ(in_words_of("score=s+m[h,q,kv] tensors=m:fp32[3]", bwd), " bias=1h bias_type=fp32");
  EXPECT_EQ(in_words_of("score=s+m[h,kv] tensors=m:fp32[2] grads=m", bwd),
            "a bias as a word has no gradient of m, which is the same for all rows");
}

TEST(FunctionsInWords, HaveTheSameKernels) {
  const Target& target = **find_target("sm_90a");
  Explanation explanation;
  const Result<Plan> of_function = plan(*parse(words + " keep=kv<=p"), target, {}, &explanation),
                     of_word = plan(*parse(words + " mask=causal"), target, {});
  ASSERT_TRUE(of_function) << of_function.error().message;
  EXPECT_EQ(print(of_function->stages[0].key), print(of_word->stages[0].key));
  EXPECT_THAT(to_text(explanation),
              testing::HasSubstr("its functions are planned as words: " + words + " mask=causal"));
  EXPECT_THAT(to_text(explanation), testing::StartsWith(words + " keep=kv<=p\n"));
  const Result<Plan> of_tensor =
                         plan(*parse(words + " score=s+m[q,kv] tensors=m:fp32[2]"), target, {}, &explanation),
                     of_bias = plan(*parse(words + " bias=11 bias_type=fp32"), target, {});
  ASSERT_TRUE(of_tensor) << of_tensor.error().message;
  EXPECT_EQ(print(of_tensor->stages[0].key), print(of_bias->stages[0].key));
  EXPECT_THAT(
      to_text(explanation),
      testing::HasSubstr("m is read as bias, fp32 [1, 1, 64, 96]; if its type or sizes do not fit, the "
                         "call is refused\n"));
}

TEST(FunctionsInWords, HaveTheKernelsOfTheirWords) {
  const struct {
    const char *function, *word;
  } cases[] = {
      {"score=3.0*tanh(s/3.0) keep=kv<=p&&p-kv<9", "softcap=3 mask=window:8,0"},
      {"score=s+slope[b,h]*(kv-p) keep=kv<=p tensors=slope:fp32[2]", "bias=alibi_b mask=causal"},
      {"score=3.0*tanh(s/3.0)+m[b,h,q,kv] tensors=m:fp32[4]", "softcap=3 bias=bh bias_type=fp32"},
      {"score=s+m[h,q,kv] keep=kv<=q tensors=m:fp32[3]", "bias=1h bias_type=fp32 mask=causal_top_left"},
  };
  for (const auto& [function, word] : cases) {
    for (const char* target : {"cpu-avx2", "sm_90a", "sm_80", "gfx942"}) {
      for (const std::string pass : {"fwd", "bwd"}) {
        const std::string sizes = pass + " bf16 b=2 hq=4 hk=2 sq=640 sk=960 d=64 ";
        const bool learned =
            pass == "bwd" && std::string_view(function).find("=m:") != std::string_view::npos;
        const Result<Plan> of_function = plan(*parse(sizes + function + (learned ? " grads=m" : "")),
                                              **find_target(target), {}),
                           of_word = plan(*parse(sizes + word + (learned ? " dbias" : "")),
                                          **find_target(target), {});
        ASSERT_TRUE(of_function && of_word) << function << " on " << target;
        ASSERT_EQ(of_function->stages.size(), of_word->stages.size());
        for (std::size_t i = 0; i < of_word->stages.size(); ++i)
          EXPECT_EQ(print(of_function->stages[i].key), print(of_word->stages[i].key));
        EXPECT_EQ(of_function->workspace.total, of_word->workspace.total);
      }
    }
  }
}

/// Sizes of a problem of two sequences with four heads, and how many matrices of bits its mask has.
struct AsBits {
  const char *function, *words;
  std::int64_t matrices;
};

TEST(FunctionsAsBits, HaveTheKernelsOfBits) {
  const AsBits cases[] = {
      {"keep=kv!=7", "bits", 1},
      {"keep=doc[b,q]==doc[b,kv]&&kv<=p tensors=doc:int32[2]", "bits mask=causal", 2},
      {"keep=kv%3<h&&q-kv<40", "bits mask=window:39,-1,top_left", 4},
      {"keep=kv!=q&&b+hk<2 score=3.0*tanh(s/3.0)", "bits softcap=3", 8},
      {"keep=kv!=q lengths", "bits lengths", 2},
      {"keep=kv<=p&&q!=kv mask=window:9,9", "bits mask=window:9,9", 1},
  };
  for (const auto& [function, word, matrices] : cases) {
    for (const std::string pass : {"fwd", "bwd"}) {
      const std::string sizes = pass + " bf16 b=2 hq=4 hk=2 sq=640 sk=960 d=64 ";
      const Target& target = **find_target("cpu-avx2");
      const Result<Plan> of_function = plan(*parse(sizes + function), target, {}),
                         of_word = plan(*parse(sizes + word), target, {});
      ASSERT_TRUE(of_function && of_word) << function;
      ASSERT_EQ(of_function->stages.size(), of_word->stages.size() + 1) << function;
      EXPECT_EQ(print(of_function->stages[0].key), "cpu-avx2 cpu_generic_forward | any fwd");
      EXPECT_EQ(of_function->stages[0].grid, 10 * matrices) << function;
      for (std::size_t i = 0; i < of_word->stages.size(); ++i)
        EXPECT_EQ(print(of_function->stages[i + 1].key), print(of_word->stages[i].key)) << function;
      EXPECT_EQ(of_function->workspace.bytes_of("bits"),
                matrices * (640 * 960 / 8 + 8 * TileMap::size(640, 960)))
          << function;
    }
  }
}

/// How many sequences of two have ranges of their own, in bytes of their 640 rows.
struct AsRanges {
  const char *function, *words;
  std::int64_t sequences;
};

TEST(FunctionsAsRanges, HaveTheKernelsOfRanges) {
  const AsRanges cases[] = {
      {"keep=kv<7", "ranges", 1},
      {"keep=kv<=p||kv<prefix[b] tensors=prefix:int32[1]", "ranges", 2},
      {"keep=kv<=p&&p-kv<w[q] tensors=w:int32[1]", "ranges mask=causal", 1},
      {"keep=kv>=first[b]&&kv<end[b] score=3.0*tanh(s/3.0) tensors=first:int32[1],end:int32[1]",
       "ranges softcap=3", 2},
      {"keep=kv//32==q//32 lengths", "ranges lengths", 2},
      {"keep=kv<9 mask=window:9,9", "ranges mask=window:9,9", 1},
      {"keep=kv<9 bits", "ranges bits", 1},
  };
  for (const auto& [function, word, sequences] : cases) {
    for (const char* target : {"cpu-avx2", "sm_90a", "sm_80", "gfx942"}) {
      for (const std::string pass : {"fwd", "bwd"}) {
        const std::string sizes = pass + " bf16 b=2 hq=4 hk=2 sq=640 sk=960 d=64 ";
        const Result<Plan> of_function = plan(*parse(sizes + function), **find_target(target), {}),
                           of_word = plan(*parse(sizes + word), **find_target(target), {});
        ASSERT_TRUE(of_function && of_word) << function << " on " << target;
        ASSERT_EQ(of_function->stages.size(), of_word->stages.size() + 1) << function;
        const bool on_cpu = of_word->target->on_cpu();
        EXPECT_EQ(of_function->stages[0].key.algorithm.kernel,
                  on_cpu ? "cpu_generic_forward" : "portable_ranges");
        EXPECT_EQ(of_function->stages[0].grid, sequences * (on_cpu ? 10 : 5)) << function;
        for (std::size_t i = 0; i < of_word->stages.size(); ++i)
          EXPECT_EQ(print(of_function->stages[i + 1].key), print(of_word->stages[i].key)) << function;
        EXPECT_EQ(of_function->workspace.bytes_of("ranges"), sequences * 640 * 8) << function;
      }
    }
  }
}

/// Bits of this mask would take 2 GiB.
TEST(FunctionsAsRanges, AreAsLongAsTheKeys) {
  const Result<Plan> made =
      plan(*parse("fwd bf16 h=8 s=131072 d=128 keep=kv<=p||kv<prefix[b] tensors=prefix:int32[1]"),
           **find_target("sm_90a"), {});
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_EQ(made->workspace.bytes_of("ranges"), 131072 * 8);
  EXPECT_EQ(made->stages[1].kernel->name, "sm90_forward");
}

/// A mask has one kernel, whatever the names of its tensors and whatever the score.
TEST(FunctionsAsBits, OneMaskIsCompiledOnce) {
  const auto first_stage = [](const std::string& function) {
    const Result<Plan> made =
        plan(*parse("fwd bf16 b=2 h=4 sq=640 sk=960 d=64 " + function), **find_target("sm_90a"), {});
    EXPECT_TRUE(made) << made.error().message;
    return made->stages[0];
  };
  const Stage alone = first_stage("keep=doc[b,q]==doc[b,kv]&&q-kv<64 tensors=doc:int32[2]");
  const Stage beside = first_stage(
      "keep=segment[b,q]==segment[b,kv]&&q-kv<9 score=3.0*tanh(s/3.0)-slope[h]*abs(kv-p) "
      "tensors=slope:fp32[1],segment:int32[2]");
  const Stage other = first_stage("keep=doc[b,q]==doc[b,kv]&&q-kv<=64 tensors=doc:int32[2]");
  EXPECT_THAT(print(alone.key), testing::HasSubstr("keep=q-kv<n0&&t0[b,q]==t0[b,kv] tensors=t0:int32[2]"));
  EXPECT_EQ(print(beside.key), print(alone.key));
  EXPECT_NE(print(other.key), print(alone.key));
  const auto schedule = beside.schedule.as<PortableBitsSchedule>();
  EXPECT_EQ(schedule.call.numbers[0], 9u);
  EXPECT_EQ(schedule.captured[0], 1);
  EXPECT_EQ(schedule.captured[1], 8);
}

TEST(FunctionsAsBits, TakeAtMost64MiB) {
  const Target& target = **find_target("cpu-avx2");
  const auto bits_of = [&target](const std::string& sizes) {
    const Result<Plan> made = plan(*parse("fwd bf16 d=64 " + sizes + " keep=kv!=q"), target, {});
    return made ? made->workspace.bytes_of("bits") : -1;
  };
  EXPECT_EQ(bits_of("b=9 h=9 sq=16384 sk=32768"), (64 << 20) + 8 * TileMap::size(16384, 32768));
  EXPECT_EQ(bits_of("b=9 h=9 sq=16385 sk=32768"), 0);
  EXPECT_EQ(bits_of("sq=1000 sk=0"), 0);
  PlanOptions options;
  options.functions = FunctionsBy::bits;
  EXPECT_EQ(plan(*parse("fwd bf16 d=64 sq=16385 sk=32768 keep=kv!=q"), target, options).error().message,
            "functions=bits is not possible: its bits would take more than 64 MiB; leave it out");
  EXPECT_EQ(plan(*parse("fwd bf16 d=64 s=9 score=s*2.0"), target, options).error().message,
            "functions=bits is not possible: there is no keep, and a score is not a mask; leave it out");
  EXPECT_EQ(plan(*parse("fwd bf16 d=64 s=9 bits keep=kv!=q"), target, options).error().message,
            "functions=bits is not possible: there are bits beside keep; leave it out");
}

TEST(FunctionsInWords, AreAskedForOrRefused) {
  const Target& target = **find_target("cpu-generic");
  const auto refusal = [&target](const std::string& function, FunctionsBy by) {
    PlanOptions options;
    options.functions = by;
    Explanation explanation;
    const Result<Plan> made = plan(*parse(words + " " + function), target, options, &explanation);
    return made ? explanation.functions : made.error().message;
  };
  EXPECT_EQ(refusal("keep=kv<=p", FunctionsBy::words),
            "its functions are planned as words: " + words + " mask=causal");
  EXPECT_EQ(
      refusal("keep=kv<=p", FunctionsBy::interpreted),
      "its functions are not planned as words: functions=interpreted; only generic kernels interpret them: "
      "1 operation for each pair");
  EXPECT_EQ(refusal("keep=kv<7", FunctionsBy::words),
            "functions=words is not possible: no word says keep; leave it out");
  EXPECT_EQ(refusal("keep=kv<7", FunctionsBy::any),
            "its functions are planned as words: " + words +
                " ranges; its first stage writes the ranges, as words alone do not do: no word says keep; no "
                "operations");
  EXPECT_EQ(refusal("keep=kv<7", FunctionsBy::ranges),
            "its functions are planned as words: " + words +
                " ranges; its first stage writes the ranges; no operations");
  EXPECT_EQ(refusal("keep=kv<=p", FunctionsBy::ranges),
            "its functions are planned as words: " + words +
                " mask=causal ranges; its first stage writes the ranges; 1 operation for each row");
  EXPECT_EQ(
      refusal("keep=kv!=7", FunctionsBy::any),
      "its functions are planned as words: " + words +
          " bits; its first stage writes the bits, as ranges do not do: a row may see several ranges of "
          "keys; 1 operation for each key");
  EXPECT_EQ(
      refusal("keep=kv<7 score=s*2.0", FunctionsBy::any),
      "its functions are not planned as words: no word says keep; as ranges: no word says score; as bits: no "
      "word says score; only generic kernels interpret them: 1 operation for each key, 1 for each pair");
  EXPECT_EQ(refusal("keep=kv!=7", FunctionsBy::ranges),
            "functions=ranges is not possible: a row may see several ranges of keys; leave it out");
  EXPECT_EQ(
      refusal("keep=kv<h", FunctionsBy::ranges),
      "functions=ranges is not possible: ranges are the same for all heads, and its keys depend on the head; "
      "leave it out");
  EXPECT_EQ(refusal("keep=kv<7 ranges", FunctionsBy::ranges),
            "functions=ranges is not possible: there are ranges beside keep; leave it out");
  EXPECT_THAT(
      refusal("keep=doc[b,q]==doc[b,kv]&&h//hk+b<kv*sk&&u[0]<2 tensors=doc:int32[2],u:int32[1]",
              FunctionsBy::any),
      testing::EndsWith("; 2 operations for each call, 2 for each head, 1 for each row, 4 for each key, "
                        "2 for each pair"));
  EXPECT_EQ(refusal("mask=causal", FunctionsBy::words),
            "functions=words is for a problem with score or keep; leave it out");
  PlanOptions interpreted;
  interpreted.functions = FunctionsBy::interpreted;
  EXPECT_FALSE(plan(*parse(words + " keep=kv<=p"), **find_target("sm_90a"), interpreted));
  EXPECT_EQ(functions_by("interpretd").error().message,
            "functions='interpretd' is not known; did you mean 'interpreted'?");
}

}  // namespace
}  // namespace regard
