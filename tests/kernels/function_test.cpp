// Functions of the score and the mask, interpreted by the generic kernels, as words, as ranges, and as bits,
// against the oracle.
#include <gmock/gmock.h>

#include <algorithm>
#include <random>

#include "kernels/support.h"
#include "support/random_mask.h"

namespace regard::test {
namespace {

using testing::HasSubstr;

/// A function and its tensors.
const std::vector<std::string> functions = {
    "keep=kv<=q",
    "keep=kv<=q&&q-kv<17",
    "keep=doc[b,q]==doc[b,kv]&&kv<=p tensors=doc:int32[2]",
    "keep=(kv<4||q-kv<9)&&kv<=p&&seen[h] tensors=seen:bool[1]",
    "keep=(kv*40503+q)%7<3",
    "keep=(q//8==kv//8)!=(h<2)",
    "score=s*0.5+2.0",
    "score=s-slope[h]*abs(kv-p) tensors=slope:fp32[1]",
    "score=s-slope[b,h]*float((q-kv)*(q-kv))*0.01 tensors=slope:fp32[2]",
    "score=s+table[h,q-kv+30] tensors=table:fp32[2]",
    "score=20.0*tanh(s/20.0)",
    "score=where(kv<5,s+1.5,s*sigmoid(s)) keep=kv!=q",
    "score=where(kv%3==0,s,-inf)",
    "score=s*temperature tensors=temperature:fp32[0]",
    "score=s+bias[b,h,q,kv] tensors=bias:fp32[4]",
    "score=d=float(q-kv);s-d*d*w[h]*w[h]*0.01 tensors=w:fp32[1]",
    "score=max(s,-0.5)+min(s,g[kv])*0.3 tensors=g:fp32[1]",
    "score=s+float(bucket[min(abs(q-kv),40)])*0.1 tensors=bucket:int32[1]",
    "score=s*cos(float(q-kv)*0.1)+sqrt(float(kv+1))*0.1-exp(-float(q)*0.1)",
    "score=s+log(float(1+abs(q-kv)))*pow(1.5,float(h)) keep=tq!=tk+1&&sq+sk>hk",
};

const std::vector<std::string> with_gradients = {"slope", "table", "temperature", "bias", "w", "g"};

/// The function with gradients of its tensors.
std::string with_grads(const std::string& function) {
  for (const std::string& name : with_gradients)
    if (function.find("tensors=" + name + ":") != std::string::npos) return function + " grads=" + name;
  return function;
}

/// The generic kernels of all CPUs that this one can be, as interpreters.
std::vector<Path> generic_kernels() {
  std::vector<Path> paths;
  for (const std::string& target : runnable_targets())
    if (!is_gpu(target)) paths.push_back({target, "generic", 2, 1, "interpreted"});
  return paths;
}

void expect_right_everywhere(const std::string& text, const CaseOptions& options = {}) {
  expect_right_by_each(text, generic_kernels(), options);
}

TEST(Functions, Forward) {
  for (const std::string& function : functions) {
    expect_right_everywhere("fwd fp32 b=2 hq=4 hk=2 sq=11 sk=67 d=20 dv=12 lse " + function);
    expect_right_everywhere("fwd bf16 b=2 h=2 sq=5 sk=67 d=8 varlen lengths sink " + function);
  }
}

TEST(Functions, Backward) {
  for (const std::string& function : functions)
    expect_right_everywhere("bwd fp32 b=2 hq=4 hk=2 sq=9 sk=67 d=20 dv=12 " + with_grads(function));
}

TEST(Functions, ForwardBesideEveryWord) {
  for (const char* word : {"mask=causal lse", "mask=window:9,3,sink=2", "ranges bits lse",
                           "lengths mask=causal", "varlen tq=30 tk=100 lse", "dropout=0.3 sink", "scale=-0.3",
                           "layout=bhsd batch_invariant", "dropout=0.3 dropout_mask"})
    expect_right_everywhere(std::string("fwd fp32 b=3 hq=4 hk=2 sq=13 sk=66 d=8 score=s-slope[h]*abs(kv-p) "
                                        "keep=kv!=q+3 tensors=slope:fp32[1] ") +
                            word);
  for (const char* word : {"softcap=0.7 bias=1h lse", "bias=alibi_b", "softcap=2 mask=causal"})
    expect_right_everywhere(std::string("fwd fp16 b=2 h=2 sq=13 sk=66 d=8 keep=kv!=q+3 ") + word);
}

TEST(Functions, BackwardBesideEveryWord) {
  for (const char* word : {"softcap=0.7 bias=1h dbias", "bias=alibi_b dlse", "dropout=0.3 sink"})
    expect_right_everywhere(std::string("bwd fp32 b=2 h=2 sq=13 sk=66 d=8 keep=kv!=q+3 ") + word);
  for (const char* word : {"lengths", "varlen", "dropout=0.2 dlse sink", "mask=causal bits", "deterministic"})
    expect_right_everywhere(std::string("bwd bf16 b=3 hq=4 hk=2 sq=13 sk=66 d=8 keep=kv!=q+3 "
                                        "score=s*0.5-w[h]*abs(kv-p)+w[1] tensors=w:fp32[1] grads=w ") +
                            word);
}

TEST(Functions, OnACache) {
  for (const char* cache : {"paged=16 lengths", "paged=16 table=sglang",
                            "cache=4 lengths snew=1 left_padding", "kv=fp8 descale=head paged=16 lengths"})
    expect_right_everywhere(
        std::string("fwd bf16 b=3 hq=4 hk=2 sq=2 sk=70 d=16 lse score=s-slope[h]*abs(kv-p) "
                    "keep=doc[b,kv]<3||kv<p tensors=slope:fp32[1],doc:int32[2] ") +
        cache);
}

TEST(Functions, OfTensorsWithGaps) {
  CaseOptions padded;
  padded.padded_rows = true;
  expect_right_everywhere(
      "bwd fp32 b=2 h=2 sq=9 sk=67 d=8 score=s+bias[b,h,q,kv] keep=doc[b,q]<=doc[b,kv] "
      "tensors=bias:fp32[4],doc:int32[2] grads=bias",
      padded);
}

/// A random score function with parts of all kinds. Numbers stay small, so that rows have several weights.
class RandomScore {
 public:
  explicit RandomScore(unsigned seed) : random_(seed) {}

  std::string score(int depth) {
    if (depth == 0) return leaf();
    const std::string x = score(depth - 1), y = score(depth - 1);
    switch (pick(11)) {
      case 0:
        return "(" + x + "+" + y + ")";
      case 1:
        return "(" + x + "-" + y + ")";
      case 2:
        return "(" + x + "*0.5*" + y + ")";
      case 3:
        return "(" + x + "/(1.5+abs(" + y + ")))";
      case 4:
        return "min(" + x + "," + y + ")";
      case 5:
        return "max(" + x + "," + y + ")";
      case 6:
        return "where(" + condition() + "," + x + "," + y + ")";
      case 7:
        return "tanh(" + x + ")";
      case 8:
        return "sigmoid(" + x + ")";
      case 9:
        return "sin(" + x + ")";
      default:
        return "exp2(-abs(" + x + "))";
    }
  }
  std::string condition() {
    static constexpr const char* some[] = {"kv<=q",      "(q+kv)%3!=1", "doc[kv]==doc[q]",
                                           "h==1||kv>5", "kv//16==2",   "!(kv>q+9)"};
    return some[pick(6)];
  }

 private:
  int pick(int n) { return std::uniform_int_distribution(0, n - 1)(random_); }
  std::string leaf() {
    static constexpr const char* some[] = {"s", "s", "s", "w[h,kv]", "w[h,q-kv]", "0.75", "float(kv-p)*0.05"};
    return some[pick(7)];
  }

  std::mt19937 random_;
};

TEST(Functions, AtRandom) {
  for (unsigned seed = 0; seed < 40; ++seed) {
    RandomScore random(seed);
    const std::string function = "score=s+w[0,doc[0]]+" + random.score(1 + static_cast<int>(seed % 3)) +
                                 " keep=" + random.condition() + "||kv<2 tensors=w:fp32[2],doc:int32[1] ";
    const std::string grads =
        seed % 2 == 0 ? "bwd fp32 b=1 h=2 sq=6 sk=66 d=4 grads=w " : "fwd fp32 b=1 h=2 sq=6 sk=66 d=4 lse ";
    expect_right_everywhere(grads + function);
  }
}

/// What is computed as a word has the bits of the word, and is as good as what is interpreted.
struct InWords {
  const char *function, *words;
};
const std::vector<InWords> in_words = {
    {"keep=kv<=p", "mask=causal"},
    {"keep=kv<=p&&p-kv<9", "mask=window:8,0"},
    {"keep=(kv<3||p-kv<9)&&kv<=p", "mask=window:8,0,sink=3"},
    {"score=3.0*tanh(s/3.0)", "softcap=3"},
    {"score=s-slope[h]*abs(kv-p) tensors=slope:fp32[1]", "bias=alibi"},
    {"score=s+slope[b,h]*(kv-p) keep=kv<=p tensors=slope:fp32[2]", "bias=alibi_b mask=causal"},
    {"score=3.0*tanh(s/3.0)+m[b,h,q,kv] tensors=m:fp32[4]", "softcap=3 bias=bh bias_type=fp32"},
    {"score=s+m[h,q,kv] keep=kv<=q tensors=m:fp32[3]", "bias=1h bias_type=fp32 mask=causal_top_left"},
    {"score=s+m[0,0,q,kv] tensors=m:fp32[4]", "bias=11 bias_type=fp32"},
};

/// The outputs of a run of a problem in words with the tensors of a case.
std::string run_words(Case& c, const std::string& text, const Path& path, regard_role of_captured) {
  regard_arguments arguments = c.arguments();
  const Problem words = parse(text).value();
  const auto move = [&](regard_role from, regard_role to) {
    if (tensor_use(words, to) == REGARD_UNUSED) return;
    regard_tensor tensor = arguments.tensor[from];
    const TensorSpec spec = tensor_spec(words, to);
    const auto missing = static_cast<std::int32_t>(spec.shape.size()) - tensor.rank;
    std::copy_backward(tensor.shape, tensor.shape + tensor.rank, tensor.shape + spec.shape.size());
    std::copy_backward(tensor.strides, tensor.strides + tensor.rank, tensor.strides + spec.shape.size());
    std::fill_n(tensor.shape, missing, 1);
    std::fill_n(tensor.strides, missing, 0);
    tensor.rank += missing;
    arguments.tensor[to] = tensor;
  };
  move(REGARD_CAPTURED_0, of_captured);
  move(REGARD_GRAD_CAPTURED_0, REGARD_GRAD_BIAS);
  arguments.tensor[REGARD_CAPTURED_0] = arguments.tensor[REGARD_GRAD_CAPTURED_0] = {};
  regard_problem* problem = nullptr;
  EXPECT_EQ(regard_problem_parse(text.c_str(), &problem), REGARD_OK) << regard_status_message();
  regard_plan_options options = REGARD_PLAN_OPTIONS_INIT;
  options.target = path.target.c_str();
  options.family = path.family.c_str();
  options.threads = path.threads;
  const regard_status status = regard_attention(problem, &options, &arguments);
  regard_problem_destroy(problem);
  return status == REGARD_OK ? "" : regard_status_message();
}

/// The bits of all outputs.
std::vector<std::vector<std::uint8_t>> outputs_of(const Case& c) {
  std::vector<std::vector<std::uint8_t>> all;
  for (int i = 0; i < REGARD_ROLE_COUNT; ++i)
    if (const auto role = static_cast<regard_role>(i); is_written(tensor_use(c.problem(), role)))
      all.push_back(c.bytes(role));
  return all;
}

TEST(FunctionsInWords, HaveTheBitsOfWords) {
  for (const auto& [function, words] : in_words) {
    for (const std::string pass : {"fwd", "bwd"}) {
      const bool learned = pass == "bwd" && std::string_view(function).find("=m:") != std::string_view::npos;
      const std::string sizes = pass + " bf16 b=2 hq=4 hk=2 sq=21 sk=70 d=16 ";
      Case c(sizes + function + (learned ? " grads=m" : ""));
      const Path path{runnable_targets().front(), "generic", 2, 1, "words"};
      ASSERT_EQ(run(c, path), "") << c.description();
      const auto by_function = outputs_of(c);
      c.poison_outputs();
      const regard_role role =
          std::string_view(words).find("alibi") != std::string_view::npos ? REGARD_ALIBI : REGARD_BIAS;
      ASSERT_EQ(run_words(c, sizes + words + (learned ? " dbias" : ""), path, role), "") << words;
      EXPECT_EQ(outputs_of(c), by_function) << c.description();
    }
  }
}

TEST(FunctionsInWords, AreRight) {
  for (const auto& [function, words] : in_words) {
    const bool learned = std::string_view(function).find("=m:") != std::string_view::npos;
    expect_right_by_each(
        std::string("bwd fp32 b=2 h=2 sq=21 sk=70 d=8 ") + function + (learned ? " grads=m" : ""),
        {{"", "generic", 2, 1, "words"}, {"", "generic", 2, 1, "interpreted"}});
  }
  for (const char* more : {"varlen lengths", "paged=16 lengths lse", "dropout=0.2 sink", "ranges bits"})
    expect_right(std::string("fwd bf16 b=3 hq=4 hk=2 sq=5 sk=70 d=16 score=s+m[b,h,q,kv] "
                             "tensors=m:fp32[4] ") +
                     more,
                 {"", "generic", 2, 1, "words"});
}

/// The kernels of a CPU, after the stage that writes the ranges.
std::vector<Path> readers_of_ranges(Pass pass) {
  if (pass == Pass::bwd) return {{"", "backward", 2, 1, "ranges"}, {"", "generic", 2, 1, "ranges"}};
  return {{"", "forward", 2, 1, "ranges"}, {"", "decode", 2, 1, "ranges"}, {"", "generic", 2, 1, "ranges"}};
}

TEST(FunctionsAsRanges, AreRight) {
  for (const std::string mask :
       {"keep=kv<=p||kv<past[b] tensors=past:int32[1]", "keep=kv>=first[b,q]&&kv<40 tensors=first:int32[2]",
        "keep=kv<=p&&p-kv<w[q] tensors=w:int32[1]", "keep=abs(p-kv)<30", "keep=kv//16==q//4",
        "keep=x[q]<0.3&&kv<=q+9||kv<5 tensors=x:fp32[1]", "keep=tq>3&&kv<=p+tq-q",
        "keep=kv<70 score=s+m[b,h,q,kv] tensors=m:fp32[4]", "keep=false"}) {
    expect_right_by_each("fwd fp32 b=2 hq=4 hk=2 sq=11 sk=367 d=16 lse " + mask,
                         readers_of_ranges(Pass::fwd));
    expect_right_by_each("bwd bf16 b=2 hq=4 hk=2 sq=71 sk=67 d=16 " + mask, readers_of_ranges(Pass::bwd));
  }
}

TEST(FunctionsAsRanges, AreRightBesideEveryWord) {
  const std::string function =
      " score=s-slope[h]*abs(kv-p) keep=kv<=p+2||kv<past[b] tensors=slope:fp32[1],past:int32[1]";
  for (const char* word :
       {"mask=window:9,3,sink=2", "bits", "lengths mask=causal", "varlen lengths sink",
        "layout=bhsd batch_invariant", "paged=16 lengths", "paged=16 table=sglang",
        "cache=4 lengths snew=1 left_padding", "cache=4 lengths snew=1 rope=half rotary=16"})
    expect_right_by_each(std::string("fwd bf16 b=3 hq=4 hk=2 sq=3 sk=70 d=16 lse ") + word + function,
                         {{"", "", 2, 1, "ranges"}, {"", "generic", 2, 1, "ranges"}});
  for (const char* word : {"lengths", "varlen", "dropout=0.2 dlse sink", "deterministic", "mask=causal"})
    expect_right_by_each(std::string("bwd bf16 b=3 hq=4 hk=2 sq=33 sk=66 d=8 ") + word + function,
                         readers_of_ranges(Pass::bwd));
}

/// Fewer keys than rows, and sequences without keys or rows.
TEST(FunctionsAsRanges, OfShortSequences) {
  const Path path{"", "generic", 2, 1, "ranges"};
  for (const char* problem :
       {"fwd fp32 b=2 h=1 sq=70 sk=5 d=4 lse keep=kv<=p||kv<past[b] tensors=past:int32[1]",
        "fwd fp32 b=2 h=1 sq=3 sk=0 d=4 lse keep=kv<7", "fwd fp32 b=2 h=1 sq=0 sk=9 d=4 lse keep=kv<7",
        "bwd fp32 b=4 h=1 sq=70 sk=9 tq=75 tk=20 d=4 varlen lengths keep=kv>q-t[b] tensors=t:int32[1]"})
    expect_right(problem, path);
}

const std::vector<std::string> masks = {
    "keep=doc[b,q]==doc[b,kv]&&kv<=p tensors=doc:int32[2]",
    "keep=(kv<4||q-kv<9)&&kv<=p&&seen[h] tensors=seen:bool[1]",
    "keep=(kv*40503+q)%7<3",
    "keep=(q//8==kv//8)!=(h<2)&&p-kv<50",
    "keep=kv<=p||kv<past[b] tensors=past:int32[1]",
    "keep=m[b,h,q//8,kv//8] tensors=m:bool[4]",
    "keep=float(kv)*w[kv]<float(q)&&tk!=tq tensors=w:fp32[1]",
    "keep=kv<7 score=s+m[b,h,q,kv] tensors=m:fp32[4]",
    "keep=m[0,0,q,kv]>0.0||kv==0 score=s+m[b,h,q,kv] tensors=m:fp32[4]",
    "keep=false",
};

/// All kernels of a CPU, after the stage that writes the bits.
std::vector<Path> readers_of_bits(Pass pass) {
  if (pass == Pass::bwd) return {{"", "backward", 2, 1, "bits"}, {"", "generic", 2, 1, "bits"}};
  return {{"", "forward", 2, 1, "bits"}, {"", "decode", 2, 1, "bits"}, {"", "generic", 2, 1, "bits"}};
}

TEST(FunctionsAsBits, AreRight) {
  for (const std::string& mask : masks) {
    const std::string function = " " + mask;
    expect_right_by_each("fwd fp32 b=2 hq=4 hk=2 sq=11 sk=367 d=16 lse" + function,
                         readers_of_bits(Pass::fwd));
    expect_right_by_each("bwd bf16 b=2 hq=4 hk=2 sq=71 sk=67 d=16" + function, readers_of_bits(Pass::bwd));
  }
}

TEST(FunctionsAsBits, AreRightBesideEveryWord) {
  const std::string function =
      " score=s-slope[h]*abs(kv-p) keep=kv!=q+3&&kv<=p+2&&m[b,q,kv] tensors=slope:fp32[1],m:bool[3]";
  for (const char* word :
       {"mask=window:9,3,sink=2", "ranges", "lengths mask=causal", "varlen lengths sink", "dropout=0.3 sink",
        "layout=bhsd batch_invariant", "paged=16 lengths", "paged=16 table=sglang",
        "cache=4 lengths snew=1 left_padding", "kv=fp8 descale=head paged=16 lengths",
        "cache=4 lengths snew=1 rope=half rotary=16"})
    expect_right_by_each(std::string("fwd bf16 b=3 hq=4 hk=2 sq=3 sk=70 d=16 lse ") + word + function,
                         {{"", "", 2, 1, "bits"}, {"", "generic", 2, 1, "bits"}});
  for (const char* word : {"lengths", "varlen", "dropout=0.2 dlse sink", "deterministic", "mask=causal"})
    expect_right_by_each(std::string("bwd bf16 b=3 hq=4 hk=2 sq=13 sk=66 d=8 ") + word + function,
                         readers_of_bits(Pass::bwd));
}

/// Tiles that no row sees, that all rows see, and others; a sequence, a head, and rows without a key.
TEST(FunctionsAsBits, OfWholeTiles) {
  for (const char* mask :
       {"keep=((kv//64+q//64)%3==0||kv//128==q//100)&&h!=1&&b!=1", "keep=kv//64!=2&&q!=3 lengths",
        "keep=(kv//64+q//64)%3==h&&q!=130 mask=causal", "keep=kv>=0"})
    expect_right_by_each(std::string("fwd fp32 b=2 h=2 sq=200 sk=330 d=8 lse ") + mask,
                         {{"", "", 2, 1, "bits"}, {"", "generic", 2, 1, "bits"}});
}

/// Bits and their map are those of the tensors of each call, whatever is left in the workspace.
TEST(FunctionsAsBits, FollowTensorsThatChange) {
  Case c("fwd fp32 b=2 h=1 sq=150 sk=200 d=8 keep=doc[b,q]==doc[b,kv] tensors=doc:int32[2]");
  regard_problem* problem = nullptr;
  regard_plan* plan = nullptr;
  ASSERT_EQ(regard_problem_parse(print(c.problem()).c_str(), &problem), REGARD_OK);
  ASSERT_EQ(regard_plan_create(problem, nullptr, &plan), REGARD_OK) << regard_status_message();
  std::vector<std::uint8_t> workspace(static_cast<std::size_t>(regard_plan_workspace_bytes(plan)) + 64);
  const auto address = reinterpret_cast<std::uintptr_t>(workspace.data());
  for (const std::int64_t length : {30, 1000, 7, 64}) {
    for (std::int64_t i = 0; i < c.count(REGARD_CAPTURED_0); ++i)
      c.set(REGARD_CAPTURED_0, i, static_cast<double>(i / length));
    c.poison_outputs();
    ASSERT_EQ(regard_plan_run(plan, &c.arguments(), workspace.data() + (64 - address % 64),
                              regard_plan_workspace_bytes(plan), nullptr),
              REGARD_OK)
        << regard_status_message();
    EXPECT_EQ(c.mistakes(*oracle::run(c.problem(), c.arguments(), {2, 0, 0})), "") << length;
  }
  regard_plan_destroy(plan);
  regard_problem_destroy(problem);
}

/// Intervals decide many tiles of these.
TEST(FunctionsAsBits, AtRandom) {
  for (unsigned seed = 0; seed < 100; ++seed)
    expect_right("fwd fp32 b=1 h=2 sq=130 sk=200 d=4 lse keep=(" + RandomMask(seed).condition(3) +
                     "||kv==q)&&(doc[0]==7||m[0,0]||kv>=0) tensors=doc:int32[1],m:bool[2]",
                 {"", "generic", 2, 1, "bits"});
}

TEST(FunctionsAsBits, AreThoseOfEveryTarget) {
  std::vector<Path> paths;
  for (const std::string& target : runnable_targets())
    if (!is_gpu(target)) paths.push_back({target, "generic", 2, 1, "bits"});
  for (const std::string& mask : masks)
    expect_right_by_each("fwd fp32 b=2 hq=4 hk=2 sq=70 sk=67 d=8 " + mask, paths);
}

/// A case with another tensor in place of the captured one.
struct Reshaped {
  const char* what;
  std::vector<std::int64_t> shape, strides;
  regard_dtype dtype = REGARD_FP32;
  const char* why;  ///< of a word that does not take it; empty: it does
};

TEST(FunctionsInWords, TakeTensorsWhoseIndicesAreNotClamped) {
  const std::string text = "fwd fp32 b=2 h=2 sq=5 sk=9 d=8 score=s+m[b,q,kv] tensors=m:fp32[3]";
  const std::vector<Reshaped> tensors = {
      {"its own sizes", {2, 5, 9}, {45, 9, 1}, REGARD_FP32, ""},
      {"larger ones", {3, 7, 12}, {84, 12, 1}, REGARD_FP32, ""},
      {"one row and one sequence", {1, 1, 9}, {9, 9, 1}, REGARD_FP32, ""},
      {"other order in memory", {2, 5, 9}, {9, 18, 1}, REGARD_FP32, ""},
      {"keys that are apart", {2, 5, 9}, {90, 18, 2}, REGARD_FP32, "must be contiguous (stride 1)"},
      {"fewer rows",
       {2, 3, 9},
       {27, 9, 1},
       REGARD_FP32,
       "tensor 'm (captured_0)' has shape [2, 3, 9], and the word reads each of 5 elements in dimension 1"},
      {"one key", {2, 5, 1}, {5, 1, 1}, REGARD_FP32, "must be contiguous (stride 1)"},
      {"bf16", {2, 5, 9}, {45, 9, 1}, REGARD_BF16, "tensor 'm (captured_0)' is bf16; the problem needs fp32"},
  };
  std::vector<float> numbers(400);
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(i % 13) * 0.25f - 1;
  for (const Reshaped& one : tensors) {
    Case c(text);
    regard_tensor& m = c.arguments().tensor[REGARD_CAPTURED_0];
    m = {numbers.data(), one.dtype, 3, {}, {}};
    std::ranges::copy(one.shape, m.shape);
    std::ranges::copy(one.strides, m.strides);
    const oracle::Outputs expected = oracle::run(c.problem(), c.arguments()).value();
    // These tests run with REGARD_STRICT, by which nothing else answers where the word does not fit.
    EXPECT_EQ(run(c, {}).empty(), one.why[0] == 0) << one.what;
    if (one.why[0] == 0) {
      EXPECT_EQ(c.mistakes(expected), "") << one.what;
    }
    const std::string refusal = run(c, {"", "", 2, 1, "words"});
    EXPECT_EQ(refusal.empty(), one.why[0] == 0) << one.what << ": " << refusal;
    EXPECT_THAT(refusal, HasSubstr(one.why)) << one.what;
    c.poison_outputs();
    EXPECT_EQ(run(c, {"", "generic"}), "") << one.what;
    EXPECT_EQ(c.mistakes(expected), "") << one.what;
  }
}

}  // namespace
}  // namespace regard::test
