// score=, keep= and the words beside them: the canonical text of each, and a sentence for each that is
// refused.
#include <gmock/gmock.h>

#include "problem/functions.h"
#include "problem/tensors.h"

namespace regard {
namespace {

using ::testing::HasSubstr;

const std::string words = "fwd bf16 b=2 h=4 s=64 d=16 ";

Problem problem_of(const std::string& text) {
  const Result<Problem> problem = parse(text);
  EXPECT_TRUE(problem) << text << ": " << problem.error().message;
  return problem.value_or(Problem());
}
std::string refusal_of(const std::string& text) {
  const Result<Problem> problem = parse(text);
  if (!problem) return problem.error().message;
  const Status status = validate(*problem);
  return status ? "" : status.error().message;
}

TEST(FunctionWords, HaveOneText) {
  const struct {
    const char *written, *printed;
  } cases[] = {
      {"keep=q>=kv&&q-kv<64", "keep=q-kv<n0&&kv<=q numbers=n0:64"},
      {"keep=\"q >= kv && q - kv < 64\"", "keep=q-kv<n0&&kv<=q numbers=n0:64"},
      {"numbers=n0:64 keep=q-kv<n0&&q>=kv", "keep=q-kv<n0&&kv<=q numbers=n0:64"},
      {"keep=q-kv<n1&&q>=kv+n0 numbers=n0:3,n1:64", "keep=q-kv<n0&&kv+n1<=q numbers=n0:64,n1:3"},
      {"score=s*0.5-slope[h]*abs(kv-p) tensors=slope:fp32[1]",
       "score=s*f0-slope[h]*float(abs(kv-p)) tensors=slope:fp32[1] numbers=f0:0.5"},
      {"score='s * 0.5' keep=kv<7", "score=s*f0 keep=kv<n1 numbers=f0:0.5,n1:7"},
      {"keep=kv//16==q//16", "keep=q//16==kv//16"},
  };
  for (const auto& [written, printed] : cases) {
    const Problem problem = problem_of(words + written);
    EXPECT_EQ(print(problem), words + printed) << written;
    EXPECT_EQ(problem_of(print(problem)), problem) << written;
    const Result<Problem> of_json = problem_from_json(to_json(problem));
    ASSERT_TRUE(of_json) << of_json.error().message;
    EXPECT_EQ(*of_json, problem);
    EXPECT_EQ(refusal_of(words + written), "") << written;
  }
}

TEST(FunctionWords, ASizeIsNoPartOfTheSignature) {
  const Problem narrow = problem_of(words + "keep=q-kv<64"), wide = problem_of(words + "keep=q-kv<65");
  EXPECT_NE(narrow, wide);
  EXPECT_EQ(signature(narrow), signature(wide));
}

TEST(FunctionWords, OfAProblemCanChange) {
  Problem problem = problem_of(words + "score=s*0.5 keep=kv<7");
  ASSERT_TRUE(apply(problem, "numbers=f0:0.25,n1:9"));
  EXPECT_EQ(problem, problem_of(words + "score=s*0.25 keep=kv<9"));
  ASSERT_TRUE(apply(problem, "score=s*3.0-1.0"));
  EXPECT_EQ(problem, problem_of(words + "score=s*3.0-1.0 keep=kv<9"));
}

TEST(FunctionWords, OfAWrongFunctionAreRefused) {
  const struct {
    const char *written, *sentence;
  } cases[] = {
      {"score=s-slop[h] tensors=slope:fp32[1]",
       "score: 'slop' is not a name here; 'slope' is, at character 3"},
      {"keep=s",
       "keep: a condition is required here, not fp32; compare with a number, as in x!=0, at character 1"},
      {"score=", "score needs a text, as in score=s*2.0"},
      {"score", "score needs a text, as in score=s*2.0"},
      {"score=s*n0", "n0 has no value; numbers= gives all in order, as in numbers=n0:64,f1:0.5"},
      {"keep=kv<n0 numbers=n1:5",
       "numbers: 'n1:5' is not understood; int32 and fp32 numbers are given in order, as in "
       "numbers=n0:64,f1:0.5"},
      {"keep=kv<q+n0 numbers=n0:5,f1:2.5", "numbers: neither score nor keep reads f1; remove it"},
      {"numbers=n0:5", "numbers needs a function that reads them: score or keep, such as keep=kv<=q"},
      {"grads=w,", "grads=w, is not a list of names, as in grads=slope,bias"},
      {"grads=w", "grads needs a function that reads them: score or keep, such as keep=kv<=q"},
      {"keep=kv<q keep=kv<7", "'keep=kv<q' and 'keep=kv<7' disagree about keep; give it once"},
      {"tensors=slope:fp32[1]",
       "tensors needs a function that reads them: score or keep, such as keep=kv<=q"},
      {"score=s tensors=slope:fp32[1]", "neither score nor keep depends on slope; remove it"},
      {"keep=kv<=q||(false&&flag[h]) tensors=flag:bool[1]",
       "neither score nor keep depends on flag; remove it"},
      {"score=s+w[h] tensors=w:fp32[1] grads=w", "grads needs bwd; a forward problem writes no gradients"},
      {"score=s+w[h] tensors=w:fp32[1] grads=v", "grads: 'v' is not one of the tensors; one of: w"},
      {"score=s+w[h] tensors=w:int32[1] grads=w", "grads: w is int32; only fp32 tensors have a gradient"},
      {"score=s softcap=20",
       "score cannot be combined with softcap=20: leave softcap=20 out, and write 20*tanh(s/20) instead of "
       "s"},
      {"score=s bias=1h",
       "score cannot be combined with bias=1h: leave bias=1h out, and write s+bias[0,h,q,kv] with "
       "tensors=bias:fp32[4] instead of s"},
      {"score=s bias=alibi",
       "score cannot be combined with bias=alibi: leave bias=alibi out, and write s-slope[h]*abs(kv-p) with "
       "tensors=slope:fp32[1] instead of s"},
  };
  for (const auto& [written, sentence] : cases) EXPECT_EQ(refusal_of(words + written), sentence) << written;
  EXPECT_EQ(refusal_of("bwd bf16 b=2 h=4 s=64 d=16 keep=w[h]<1.0 tensors=w:fp32[1] grads=w"),
            "grads: only keep reads w, and a mask has no gradient; leave it out");
  EXPECT_THAT(refusal_of("append bf16 b=2 h=4 s=64 d=16 snew=1 keep=kv<q"),
              HasSubstr("keep does not go with append, which computes no attention"));
}

TEST(FunctionWords, TextsNearTheLimitsAreOfOneMindWithTheirCanonicalOnes) {
  std::string long_text = "s";
  for (int i = 0; i < 500; ++i) {
    long_text += i % 2 == 0 ? "+h" : "*0.5";
    const Result<Problem> problem = parse(words + "score=" + long_text);
    if (!problem) continue;
    ASSERT_EQ(problem_of(print(*problem)), *problem);
  }
}

TEST(FunctionTensors, AreCaptured) {
  const Problem problem = problem_of(
      "bwd bf16 b=2 h=4 s=64 d=16 score=s+w[h] keep=doc[b,q]==doc[b,kv]&&m "
      "tensors=doc:int32[2],m:bool[0],w:fp32[1] grads=w");
  const TensorSpec doc = tensor_spec(problem, REGARD_CAPTURED_0), m = tensor_spec(problem, REGARD_CAPTURED_1),
                   w = tensor_spec(problem, REGARD_CAPTURED_2);
  EXPECT_EQ(doc.use, REGARD_INPUT);
  EXPECT_EQ(doc.dtype, REGARD_INT32);
  EXPECT_EQ(doc.shape, (Dimensions{2, 64}));
  EXPECT_TRUE(doc.any_sizes);
  EXPECT_EQ(m.dtype, REGARD_UINT8);
  EXPECT_EQ(m.shape, (Dimensions{1}));
  EXPECT_EQ(w.shape, (Dimensions{4}));
  EXPECT_EQ(tensor_use(problem, REGARD_CAPTURED_3), REGARD_UNUSED);
  EXPECT_EQ(tensor_use(problem, REGARD_GRAD_CAPTURED_0), REGARD_UNUSED);
  EXPECT_EQ(tensor_use(problem, REGARD_GRAD_CAPTURED_2), REGARD_OUTPUT);
  EXPECT_EQ(label(w), "w (captured_2)");
  EXPECT_EQ(label(tensor_spec(problem, REGARD_GRAD_CAPTURED_2)), "gradient of w (grad_captured_2)");
  EXPECT_EQ(label(tensor_spec(problem, REGARD_Q)), "q");
  EXPECT_EQ(captured_index(problem, "w").value(), 2);
  EXPECT_EQ(captured_index(problem, "v").error().message, "'v' is not one of the tensors; one of: doc, m, w");
}

}  // namespace
}  // namespace regard
