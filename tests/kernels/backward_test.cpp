// Backward kernels against the oracle: every feature alone and in pairs, odd sizes, every target.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "kernels/backward_support.h"

namespace regard::test {
namespace {

using backward::expect_right;
using backward::expect_same_bits;
using backward::product;
using backward::Texts;

TEST(Backward, OddHeadDimensionsOnEveryTarget) {
  expect_right(product({"fp32 h=1 sq=70 sk=131", "bf16 h=1 sq=70 sk=131"},
                       {"d=1", "d=7 dv=40", "d=59", "d=64", "d=128", "d=192 dv=128"}),
               runnable_targets());
}

TEST(Backward, HalfPrecisionOnEveryTarget) {
  expect_right(product({"fp16 h=1 sq=70 sk=131"}, {"d=64", "d=59", "d=96 dv=111"}), runnable_targets());
}

TEST(Backward, LargeHeadDimensions) {
  expect_right(product({"fp32 h=1 sq=67 sk=200", "bf16 h=1 sq=67 sk=200 mask=causal"},
                       {"d=256", "d=512 dv=500", "d=63 dv=512"}));
}

// Rows without keys have an LSE of -infinity, and a gradient of it all the same.
TEST(Backward, GradientOfLse) {
  expect_right(product({"fp32 dlse b=2 h=2 sq=70 sk=140 d=64", "bf16 dlse b=2 h=2 sq=70 sk=140 d=40"},
                       {"softcap=5 dropout=0.2 sink", "softcap=2 bias=bh dbias mask=causal"}),
               runnable_targets());
  expect_right(
      product({"bf16 dlse b=2 hq=4 hk=2 sq=130 sk=70 d=64"}, {"mask=causal sink", "varlen lengths"}));
}

// The lengths around whole tiles, with masks that have a tail on both sides.
TEST(Backward, Tails) {
  Texts lengths;
  for (int sk : {1, 63, 64, 65, 127, 129, 191, 192, 193, 255, 400})
    lengths.push_back("sk=" + std::to_string(sk));
  for (const char* rest : {"sq=1", "sq=63", "sq=65 mask=causal", "sq=128 mask=window:30,3"})
    expect_right(
        product({std::string("fp32 h=2 d=64 ") + rest, std::string("bf16 h=2 d=64 ") + rest}, lengths));
}

TEST(Backward, EveryMaskOnEveryShape) {
  for (const char* shape : {"sq=200 sk=200", "sq=70 sk=300", "sq=300 sk=70"})
    expect_right(product({std::string("fp32 b=2 hq=4 hk=2 d=40 ") + shape}, masks));
}

TEST(Backward, MasksOnEveryTarget) {
  expect_right(product({"fp32 h=2 d=64 sq=130 sk=200", "bf16 h=2 d=64 sq=130 sk=200"},
                       {"mask=window:15,0,sink=3", "bits", "mask=causal bits ranges"}),
               runnable_targets());
}

TEST(Backward, ScoreModifiersAloneAndWithMasks) {
  for (const char* modifier : {"softcap=5", "bias=11", "bias=1h", "bias=b1", "bias=bh", "bias=alibi",
                               "bias=alibi_b", "dropout=0.3", "sink", "scale=0.3", "scale=-0.2", "scale=0"})
    expect_right(
        product({std::string("bf16 b=2 hq=4 hk=2 sq=100 sk=210 d=64 ") + modifier},
                {"mask=none", "mask=causal", "mask=window:15,0,sink=3", "mask=causal bits", "ranges"}));
}

TEST(Backward, ScoreModifiersInPairsOnEveryTarget) {
  expect_right(
      product({"fp32 b=2 h=2 sq=70 sk=140 d=64", "bf16 b=2 h=2 sq=70 sk=140 d=40"},
              {"softcap=5 dropout=0.2 sink", "bias=bh dbias dropout=0.5 sink",
               "bias=alibi_b sink mask=causal", "softcap=2 bias=bh dbias mask=causal",
               "softcap=2 bias=bh bias_type=fp32 dbias mask=causal", "softcap=5 bias=alibi_b dropout=0.2"}),
      runnable_targets());
}

// One gradient per broadcast shape, stored directly or summed over everything that shares the bias.
TEST(Backward, BiasGradients) {
  for (const char* bias : {"bias=11 dbias", "bias=1h dbias", "bias=b1 dbias", "bias=bh dbias"})
    for (const char* shape : {"b=3 hq=4 hk=2 sq=70 sk=210", "b=1 hq=4 hk=4 sq=130 sk=31", "b=2 h=1 s=65"})
      expect_right(product(
          {std::string("fp32 d=32 ") + shape + " " + bias, std::string("bf16 d=32 ") + shape + " " + bias,
           std::string("bf16 bias_type=fp32 d=32 ") + shape + " " + bias},
          {"mask=none", "mask=window:10,2,sink=1", "bits dropout=0.1", "lengths", "softcap=0.5 lengths"}));
}

// dS before multiplication by the slope of the cap is then the gradient of the bias.
TEST(Backward, ABiasBehindASoftCapInOddSizes) {
  for (const char* dtype : {"fp32", "bf16"})
    expect_right(product({std::string(dtype) + " b=2 hq=2 hk=1 softcap=0.5 bias=1h dbias"},
                         {"d=1 sq=1 sk=70", "d=59 dv=111 sq=70 sk=33 mask=causal", "d=7 dv=40 sq=37 sk=65"}));
}

TEST(Backward, PackedSequences) {
  expect_right(product(
      {"bf16 varlen b=5 hq=4 hk=2 sq=150 sk=170 tq=400 tk=450 d=64",
       "fp32 varlen b=5 hq=4 hk=2 sq=150 sk=170 tq=400 tk=450 d=40"},
      {"", "mask=causal", "lengths", "lengths mask=causal", "lengths mask=window:20,0,sink=4", "ranges",
       "sink", "lengths sink bias=alibi", "softcap=3 mask=causal_top_left bias=alibi_b", "dropout=0.2"}));
}

// Few heads and many keys: the plan cuts the keys into parts, each with a separate sum for dQ.
TEST(Backward, PartsOfTheKeys) {
  expect_right(
      product({"fp32 d=40 h=1 sq=70 sk=700", "bf16 d=64 hq=2 hk=1 sq=70 sk=900"},
              {"", "mask=causal", "mask=window:30,0,sink=4", "bits ranges", "bias=11 dbias", "sink"}));
  expect_right(
      product({"bf16 varlen b=2 h=1 sq=90 sk=900 tq=100 tk=1000 d=64"}, {"", "lengths mask=causal"}));
}

TEST(Backward, DenseWithLengths) {
  for (bool only_k : {false, true}) {
    CaseOptions options;
    options.only_lengths_k = only_k;
    expect_right(
        product({"fp32 lengths b=4 h=2 sq=90 sk=130 d=32"},
                {"", "mask=causal", "mask=window:20,7,sink=2", "bits", "bias=bh dbias", "sink mask=causal"},
                options));
  }
}

TEST(Backward, QueryHeadsOfAGroupAreSummed) {
  expect_right(product({"fp32 b=2 s=100 d=40", "bf16 b=2 s=100 d=64"},
                       {"hq=6 hk=1", "hq=6 hk=2 mask=causal", "hq=3 hk=3", "hq=8 hk=2 sink"}));
}

TEST(Backward, NoKeysAndNoRows) {
  expect_right(product({"fp32 b=2 h=2 d=32", "bf16 b=2 h=2 d=32 sink"},
                       {"sq=70 sk=0", "sq=0 sk=70", "sq=200 sk=3 mask=causal", "sq=3 sk=200 mask=causal"}));
  for (const char* text : {"bwd fp32 b=2 h=2 d=32 sq=0 sk=70", "bwd fp32 hq=4 hk=1 d=32 sq=70 sk=0"})
    test::expect_right(text, {runnable_targets().front(), "backward", 16});
}

// A bias without columns has a gradient without elements: nothing sums it, nothing rounds it.
TEST(Backward, NoKeysWithBiasGradients) {
  expect_right(
      product({"bf16 b=2 h=2 sq=64 sk=0 d=64 dbias", "fp32 b=2 hq=4 hk=2 sq=64 sk=0 d=64 dbias sink"},
              {"bias=11", "bias=1h", "bias=b1", "bias=bh"}));
}

// The LSE of large scores is rounded by thousands: a probability is still at most 1.
TEST(Backward, LargeScalesGiveFiniteGradients) {
  expect_right(product({"fp32 h=1 sq=64 sk=512 d=64 scale=1e9", "bf16 h=1 sq=64 sk=512 d=64 scale=1e9"},
                       {"", "mask=causal"}),
               runnable_targets());
}

// True -infinity: rows whose logits are all hugely negative, and rows that one huge logit decides.
TEST(Backward, ExtremeLogits) {
  CaseOptions negative;
  negative.bias_offset = -30000;
  expect_right(product({"fp32 h=2 sq=70 sk=200 d=64 bias=bh"}, {"", "mask=causal", "bits sink"}, negative),
               runnable_targets());
  CaseOptions huge;
  huge.q_scale = 1000;
  expect_right(product({"fp32 h=2 sq=70 sk=200 d=64", "bf16 h=2 sq=70 sk=200 d=64"},
                       {"", "mask=causal", "softcap=30"}, huge),
               runnable_targets());
  CaseOptions sink;
  sink.sink_offset = 50;
  expect_right(product({"fp32 h=2 sq=70 sk=200 d=64 sink"}, {"", "mask=causal"}, sink));
  sink.sink_offset = -83;  // its weight in the softmax is subnormal
  expect_right(product({"fp32 h=2 sq=70 sk=200 d=64 sink"}, {"", "mask=causal"}, sink), runnable_targets());
}

// Small caps hide the original score, and with it the slope there.
TEST(Backward, SmallSoftCaps) {
  expect_right(product({"fp32 h=3 sq=70 sk=200 d=64 scale=-0.2", "bf16 h=3 sq=70 sk=200 d=64"},
                       {"softcap=0.01", "softcap=0.001", "softcap=0.0001"}),
               runnable_targets());
}

TEST(Backward, LayoutsAndPaddedRows) {
  CaseOptions options;
  options.padded_rows = true;
  options.broadcast = true;
  expect_right(
      product({"fp32 b=2 hq=4 hk=1 sq=70 sk=140 d=40 mask=causal", "bf16 b=2 hq=4 hk=1 sq=70 sk=140 d=59",
               "bf16 b=2 hq=4 hk=1 sq=70 sk=140 d=64 bias=1h dbias bits"},
              {"layout=bshd", "layout=bhsd", "layout=sbhd"}, options));
}

// Few heads with many rows: dK and dV are sums over the parts of the queries.
TEST(Backward, PartsOfTheQueries) {
  expect_right(
      product({"fp32 h=1 sq=4200 sk=40 d=24",
               "bf16 hq=2 hk=1 sq=4170 sk=300 d=7 mask=window:4000,300,top_left sink",
               "bf16 varlen b=2 h=1 sq=4700 sk=40 tq=8300 tk=70 d=24 dv=40 dropout=0.1",
               "bf16 varlen b=3 hq=2 hk=1 sq=6200 sk=40 tq=15000 tk=90 d=24 lengths",
               "fp32 h=1 sq=4096 sk=300 d=24", "bf16 b=3 hq=3 hk=1 sq=6200 sk=20 d=24 lengths",
               "bf16 h=1 sq=8200 sk=30 d=7 mask=causal", "bf16 hq=16 hk=1 sq=300 sk=280 d=24 mask=causal",
               "fp32 varlen b=3 hq=32 hk=2 sq=400 sk=300 tq=1000 tk=800 d=8 lengths",
               // heads first, then rows; seven heads as four and three
               "fp32 hq=3 hk=1 sq=2200 sk=70 d=8 mask=causal",
               "bf16 varlen b=2 hq=14 hk=2 sq=400 sk=300 tq=700 tk=500 d=24 mask=causal sink"},
              {""}),
      runnable_targets());
}

// Parts that see none of a block of keys skip it, and blocks that no query sees have gradients of 0.
TEST(Backward, PartsOfTheQueriesThatSeeOthersKeys) {
  expect_right(product({"bf16 h=1 sq=4200 sk=2300 d=7 mask=causal", "fp32 h=1 sq=4200 sk=900 d=8 mask=causal",
                        "bf16 b=3 h=1 sq=4200 sk=700 d=7 mask=causal_top_left lengths",
                        "bf16 varlen b=2 hq=2 hk=1 sq=4700 sk=900 tq=8300 tk=1500 d=8 mask=causal",
                        "fp32 h=1 sq=300 sk=1100 d=8 mask=window:100,20,top_left"},
                       {""}),
               runnable_targets());
}

// The order in which parts are added up, by separate blocks or by one that processes all.
TEST(Backward, PartsOfTheQueriesHaveTheSameBitsForAnyNumberOfThreads) {
  for (const char* text :
       {"bwd bf16 h=2 sq=6200 sk=300 d=40", "bwd fp32 h=1 sq=4200 sk=300 d=24 dv=40 mask=causal",
        "bwd bf16 b=2 h=1 sq=6200 sk=300 d=24 lengths softcap=5",
        "bwd bf16 h=1 sq=6200 sk=300 d=7 mask=window:4200,0,top_left,sink=30",
        "bwd bf16 h=1 sq=4200 sk=2300 d=7 mask=causal", "bwd bf16 hq=16 hk=1 sq=300 sk=280 d=24 mask=causal",
        "bwd fp32 b=3 h=1 sq=4200 sk=700 d=7 mask=causal_top_left lengths",
        "bwd bf16 hq=3 hk=1 s=2200 d=24 mask=causal softcap=5",
        "bwd bf16 b=2 hq=14 hk=2 sq=300 sk=400 d=24 mask=causal",
        "bwd bf16 varlen b=3 hq=2 hk=1 sq=6200 sk=400 tq=15000 tk=600 d=24 dropout=0.1 sink"})
    expect_same_bits(text, runnable_targets().front(), {2, 3, 16});
  for (const std::string& target : runnable_targets())
    for (const char* text :
         {"bwd fp32 hq=5 hk=1 sq=300 sk=400 d=24 mask=causal", "bwd bf16 h=1 sq=4200 sk=300 d=40"})
      expect_same_bits(text, target, {16});
}

// The first block of keys that sees a query clears its dQ without waiting for any other, the last one stores
// it. Blocks in between that see none of a tile pass its turn on. Some queries see no key at all.
TEST(Backward, WindowsOverManyBlocksOfKeys) {
  for (const char* text :
       {"bwd fp32 hq=2 hk=1 s=2500 d=8 mask=window:100,20,sink=5",
        "bwd fp32 h=1 sq=900 sk=2500 d=8 mask=window:10,0,top_left",
        "bwd fp32 h=1 sq=5000 sk=1200 d=8 mask=window:-1,30,top_left",
        "bwd bf16 h=1 sq=2500 sk=900 d=8 mask=causal", "bwd bf16 h=1 sq=2500 sk=900 d=8 mask=window:300,0",
        "bwd bf16 hq=2 hk=1 sq=2500 sk=900 d=8 mask=window:100,0,top_left",
        "bwd fp32 h=1 s=2500 d=8 mask=window:0,0",
        "bwd fp32 b=2 h=1 sq=700 sk=900 d=8 mask=window:50,7 bias=11 dbias",
        "bwd fp32 h=1 sq=1100 sk=700 d=8 mask=window:50,0,top_left bias=11 dbias bits",
        "bwd fp32 varlen b=3 hq=2 hk=1 sq=1500 sk=1500 tq=3000 tk=3000 d=8 mask=window:40,300 dropout=0.1",
        "bwd fp32 b=2 h=1 s=1500 d=8 mask=causal ranges", "bwd bf16 h=1 s=1500 d=8 mask=window:200,0 bits"}) {
    const std::string target = runnable_targets().front();
    expect_same_bits(text, target, {2, 3, 16});
    test::expect_right(text, {target, "backward", 16});
  }
}

TEST(Backward, SameBitsOnEveryRunAndForAnyNumberOfThreads) {
  for (const char* text :
       {"bwd bf16 deterministic h=2 sq=4200 sk=600 d=64 mask=causal",
        "bwd bf16 deterministic b=2 hq=4 hk=2 s=300 d=64 mask=causal sink",
        "bwd fp32 deterministic b=3 h=2 s=130 d=40 bias=11 dbias", "bwd fp32 deterministic h=1 s=800 d=40",
        "bwd bf16 deterministic varlen b=4 h=2 sq=200 sk=200 tq=500 tk=500 d=64 dropout=0.1"}) {
    const std::string target = runnable_targets().front();
    for (int repeat = 0; repeat < 5; ++repeat) expect_same_bits(text, target, {2});
  }
}

std::int64_t workspace_bytes(const Problem& p, const Path& path) {
  regard_problem* problem = nullptr;
  regard_plan* plan = nullptr;
  EXPECT_EQ(regard_problem_parse(print(p).c_str(), &problem), REGARD_OK) << regard_status_message();
  regard_plan_options options = REGARD_PLAN_OPTIONS_INIT;
  options.family = path.family.c_str();
  options.threads = path.threads;
  EXPECT_EQ(regard_plan_create(problem, &options, &plan), REGARD_OK) << regard_status_message();
  const std::int64_t bytes = regard_plan_workspace_bytes(plan);
  regard_plan_destroy(plan);
  regard_problem_destroy(problem);
  return bytes;
}

/// O and LSE from Regard's own forward pass: the oracle is too slow at these lengths.
void run_forward(Case& c) {
  Problem forward = c.problem();
  forward.pass = Pass::fwd;
  forward.lse = true;
  regard_arguments arguments = c.arguments();
  for (int i = 0; i < REGARD_ROLE_COUNT; ++i)
    if (tensor_use(forward, static_cast<regard_role>(i)) == REGARD_UNUSED) arguments.tensor[i] = {};
  regard_problem* problem = nullptr;
  ASSERT_EQ(regard_problem_parse(print(forward).c_str(), &problem), REGARD_OK) << regard_status_message();
  EXPECT_EQ(regard_attention(problem, nullptr, &arguments), REGARD_OK) << regard_status_message();
  regard_problem_destroy(problem);
}

/// Checks the gradients of rows [first, first + count) as a separate problem. Rows within a window of an end
/// that is not the sequence's own have neighbours outside, and are not checked.
void expect_right_between(const Case& c, std::int64_t first, std::int64_t count) {
  Problem part = c.problem();
  const std::int64_t window = part.window_left;
  const std::int64_t from = first == 0 ? 0 : window, to = first + count == part.sq ? count : count - window;
  part.sq = part.sk = count;
  regard_arguments arguments = c.arguments();
  arguments.tensor[REGARD_LSE] = {};
  for (regard_tensor& tensor : arguments.tensor) {
    if (tensor.data == nullptr) continue;
    tensor.data = static_cast<std::uint8_t*>(tensor.data) +
                  first * tensor.strides[1] * static_cast<std::int64_t>(bytes_of(tensor.dtype));
    tensor.shape[1] = count;
  }
  auto expected = oracle::run(part, arguments, {2, 0, 0});
  ASSERT_TRUE(expected) << expected.error().message;
  for (auto& [role, output] : *expected) {
    const auto row = static_cast<std::ptrdiff_t>(output.value.size()) / count;
    constexpr double none = oracle::Output::no_result;
    std::fill(output.error.begin(), output.error.begin() + from * row, none);
    std::fill(output.error.begin() + to * row, output.error.end(), none);
  }
  for (const oracle::Comparison& output : oracle::compare(part, arguments, *expected)) {
    EXPECT_TRUE(output.ok) << role_name(output.role) << " from row " << first << ": " << output.wrong
                           << " wrong, worst " << output.worst;
    EXPECT_EQ(output.compared, (to - from) * part.d) << role_name(output.role);
  }
}

// No array of sq x sk numbers anywhere: that would be 16 GiB here.
TEST(Backward, MemoryIsLinearInTheSequence) {
  CaseOptions options;
  options.forward_inputs = false;
  const Path path{"", "backward"};
  Case c("bwd bf16 h=1 s=65536 d=64 mask=window:100,0", options);
  const std::int64_t bytes = workspace_bytes(c.problem(), path);
  EXPECT_LT(bytes, std::int64_t{128} << 20);
  Problem twice = c.problem();
  twice.sq = twice.sk = 2 * twice.sq;
  EXPECT_LE(workspace_bytes(twice, path), 2 * bytes);

  run_forward(c);
  ASSERT_EQ(run(c, path), "");
  constexpr std::int64_t rows = 600;
  for (std::int64_t first : {std::int64_t{0}, std::int64_t{32500}, c.problem().sq - rows})
    expect_right_between(c, first, rows);
}

}  // namespace
}  // namespace regard::test
