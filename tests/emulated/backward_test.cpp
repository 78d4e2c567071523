// Backward's GPU kernels against the oracle, on machines without a GPU. Problems are as small as their
// purpose allows (forward_test.cpp).
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <optional>

#include "emulated/device.h"
#include "kernels/support.h"

namespace regard::test {
namespace {

// Partly filled tiles, heads in groups, every kind of mask; sequences of all lengths, or none.
const std::vector<std::string> portable_problems = {
    "bwd fp16 d=64 b=1 h=1 sq=70 sk=150",
    "bwd fp16 d=64 b=1 hq=4 hk=2 s=150 mask=causal",
    "bwd fp16 d=40 b=1 h=2 s=120 dropout=0.2 mask=causal",
    "bwd fp16 d=64 b=3 hq=4 hk=2 s=70 tq=150 tk=150 varlen lengths bias=alibi",
    "bwd fp16 d=128 b=1 h=2 sq=40 sk=100 softcap=3 bias=bh dbias scale=1",
    "bwd fp16 d=64 b=1 h=2 sq=70 sk=101 bias=bh bias_type=fp32 dbias mask=causal",
    "bwd fp16 d=64 b=2 h=2 sq=200 sk=3 mask=causal sink dlse",
    "bwd fp16 d=64 b=1 h=1 sq=70 sk=150 mask=window:30,3,sink=5 deterministic",
    "bwd fp16 d=64 b=1 hq=4 hk=1 sq=0 sk=70 sink",
    "bwd fp16 d=64 b=1 h=1 sq=70 sk=0",
};
// In tiles that differ between GPUs: columns that do not fit at once, or just do.
const std::vector<std::string> wide_problems_from_sm_80 = {
    "bwd bf16 d=128 b=1 hq=2 hk=1 s=150",
    "bwd bf16 d=192 dv=128 b=1 h=1 sq=65 sk=127",
    "bwd bf16 d=256 b=1 h=1 s=70 mask=causal",
    "bwd bf16 d=300 b=1 h=1 s=50 bias=bh dbias",
};
// In code that all GPUs share.
const std::vector<std::string> problems_of_sm_80 = {
    "bwd fp32 d=64 b=1 hq=2 hk=1 sq=50 sk=70 mask=causal",
    "bwd bf16 d=64 b=1 h=2 s=150 bits ranges",
    "bwd bf16 d=59 dv=17 b=1 h=1 s=130 mask=window:30,3,sink=5 softcap=20 sink",
    // Gradients of a bias that batches or heads share, in any order and in turn.
    "bwd bf16 d=64 b=2 hq=4 hk=2 sq=70 sk=80 bias=1h dbias",
    "bwd bf16 d=64 b=2 hq=4 hk=2 sq=70 sk=77 bias=1h bias_type=fp32 dbias",
    "bwd bf16 d=64 b=2 hq=4 hk=2 sq=70 sk=80 bias=11 dbias dropout=0.3 mask=causal deterministic",
    // Soft cap, bias and dropout together.
    "bwd fp32 d=40 b=1 h=1 sq=40 sk=70 softcap=1 bias=bh dbias dropout=0.3 bits",
    // dS in fp16 under a large scale.
    "bwd fp16 d=64 b=1 h=1 s=100 scale=30",
};

// One tile of queries and several, of several heads, blocks of keys that no query sees, two parts of a
// group.
const std::vector<std::string> hopper_problems = {
    "bwd bf16 d=128 b=1 h=1 s=300",
    "bwd fp16 d=128 b=2 hq=4 hk=2 sq=130 sk=300 mask=causal",
    "bwd bf16 d=64 b=1 h=2 s=500 mask=causal",
    "bwd bf16 d=128 b=1 h=2 s=200 softcap=20 mask=window:30,3",
    "bwd fp16 d=64 b=1 h=2 s=260 mask=window:40,0,sink=5 softcap=5",
    "bwd bf16 d=72 dv=112 b=3 hq=4 hk=2 s=200 tq=450 tk=450 varlen mask=causal dlse",
    "bwd bf16 d=40 b=3 hq=4 hk=2 sq=100 sk=200 lengths mask=causal sink dlse",
    "bwd bf16 d=64 b=2 h=2 sq=200 sk=0",
    "bwd bf16 d=64 b=2 h=2 sq=0 sk=200",
    "bwd bf16 d=128 b=1 h=2 sq=300 sk=77 mask=causal",
    "bwd bf16 d=96 b=1 h=2 sq=127 sk=129 mask=causal_top_left",
    "bwd fp16 d=64 b=1 h=2 s=1",
    "bwd bf16 d=8 b=1 h=2 sq=64 sk=1 softcap=1",
    "bwd bf16 d=128 b=2 h=3 s=200 layout=bhsd scale=0.2",
    "bwd fp16 d=64 b=1 hq=8 hk=1 sq=200 sk=130 scale=5",
    "bwd bf16 d=128 b=2 hq=4 hk=2 sq=130 sk=300 bias=alibi_b mask=causal",
    "bwd fp16 d=64 b=1 h=2 s=260 bias=alibi softcap=5",
    "bwd bf16 d=192 b=3 h=2 s=100 tq=210 tk=210 varlen bias=alibi",
    "bwd bf16 d=128 b=2 hq=4 hk=2 sq=130 sk=300 dropout=0.3 mask=causal",
    "bwd fp16 d=64 b=3 hq=4 hk=1 s=100 tq=210 tk=210 varlen dropout=0.1 bias=alibi",
    // Sums of dQ that begin as zeros.
    "bwd bf16 d=64 b=1 h=1 sq=70 sk=4100",
    "bwd fp16 d=128 b=1 h=1 sq=150 sk=4096 mask=causal",
    // Bits and ranges, of every query head or shared, together with other words.
    "bwd fp16 d=64 b=2 h=1 sq=70 sk=150 bits",
    "bwd bf16 d=128 b=2 hq=4 hk=2 sq=130 sk=300 bits ranges mask=causal",
    "bwd bf16 d=64 b=1 h=2 s=260 ranges mask=window:60,3,sink=5 softcap=4",
    "bwd bf16 d=72 dv=112 b=3 hq=4 hk=2 s=100 tq=250 tk=250 varlen ranges dropout=0.3 dlse",
    "bwd bf16 d=256 b=1 hq=2 hk=1 s=150 bits bias=alibi",
    "bwd fp16 d=192 dv=40 b=2 h=1 sq=130 sk=100 lengths ranges sink softcap=5",
    // By pairs of warpgroups: one to three slices of dQ in shared memory, and four from registers.
    "bwd bf16 d=256 b=1 hq=2 hk=1 s=150 mask=causal",
    "bwd fp16 d=192 dv=128 b=2 h=1 sq=130 sk=100 mask=window:40,0,sink=5 softcap=5",
    "bwd bf16 d=136 b=2 hq=4 hk=2 sq=70 sk=130 lengths mask=causal sink",
    "bwd fp16 d=40 dv=200 b=1 h=1 sq=65 sk=63 scale=5",
    "bwd bf16 d=64 dv=256 b=2 h=1 s=70 tq=130 tk=130 varlen",
    "bwd bf16 d=128 dv=136 b=1 h=1 sq=70 sk=100 mask=causal",
    "bwd bf16 d=256 b=1 h=1 sq=0 sk=70",
    "bwd bf16 d=256 b=1 h=1 sq=70 sk=0",
};

TEST(EmulatedBackward, HoppersIsRight) {
  if (emulated_target() != "sm_90a") GTEST_SKIP() << "for a Hopper GPU";
  expect_all_right(hopper_problems, {emulated_target(), "sm90_backward"});
}

/// Consumers run in ping-pong or in pairs, and blocks wait for each other's first store, in any order of
/// events. A wait that never ends is reported. One tile, two and more, and several blocks that reach a tile.
TEST(EmulatedBackward, HoppersTurnsEnd) {
  if (emulated_target() != "sm_90a") GTEST_SKIP() << "for a Hopper GPU";
  for (const int number : {1, 2, 3, 4}) {
    const Seed seed(number);
    expect_all_right(
        {"bwd bf16 d=64 b=1 h=2 sq=100 sk=200", "bwd bf16 d=128 b=1 h=1 sq=128 sk=300",
         "bwd fp16 d=64 b=1 hq=2 hk=1 s=300 mask=causal", "bwd bf16 d=96 b=1 h=1 s=200 dropout=0.3",
         "bwd bf16 d=64 b=1 h=1 sq=400 sk=200 bits", "bwd bf16 d=160 b=1 h=1 s=200 ranges",
         "bwd bf16 d=192 dv=128 b=1 h=1 sq=150 sk=190 mask=causal", "bwd bf16 d=256 b=1 h=1 sq=130 sk=100"},
        {emulated_target(), "sm90_backward"});
  }
}

TEST(EmulatedBackward, PortableIsRight) {
  const Path path{emulated_target(), "portable_backward"};
  expect_all_right(portable_problems, path);
  if (emulated_target() != "sm_75") expect_all_right(wide_problems_from_sm_80, path);
  if (emulated_target() == "sm_80") expect_all_right(problems_of_sm_80, path);
}

/// Rows of all tensors have gaps filled with NaN, and no address is a multiple of 16 bytes.
TEST(EmulatedBackward, ReadsNoPadding) {
  CaseOptions options;
  options.padded_rows = true;
  options.broadcast = true;
  expect_all_right({"bwd fp16 b=2 hq=4 hk=1 sq=70 sk=90 d=40 mask=causal layout=bhsd",
                    "bwd fp16 b=2 hq=2 hk=1 sq=70 sk=90 d=59 bias=1h dbias bits layout=sbhd"},
                   {emulated_target(), "portable_backward"}, options);
}

const Numbers infinite_values = {
    "an infinite value", [](const Problem&, regard_role role, std::int64_t row, std::int64_t column) {
      const bool one = role == REGARD_V && row == 60 && column == 3;
      return one ? std::optional(std::numeric_limits<double>::infinity()) : std::nullopt;
    }};

/// A row that is NaN, that sees a NaN, or that sees an infinite value, of which its gradients are NaN.
TEST(EmulatedBackward, PassesNaNsOn) {
  CaseOptions of_q, of_k, of_v;
  of_q.nan_row = of_k.nan_key = 60;
  of_v.numbers = &infinite_values;
  for (const CaseOptions& options : {of_q, of_k, of_v}) {
    expect_all_right({"bwd bf16 h=1 s=100 d=64"}, {emulated_target(), "portable_backward"}, options);
    if (emulated_target() == "sm_90a")
      expect_all_right({"bwd bf16 h=1 s=100 d=64", "bwd bf16 h=1 s=100 d=192", "bwd bf16 h=1 s=100 d=256"},
                       {emulated_target(), "sm90_backward"}, options);
  }
}

/// Scores far from 0: a row's LSE below -100, relative to which a key that does not exist would have a large
/// weight, scores so large that their rounding is more than 1, and weights near 0.
TEST(EmulatedBackward, TakesExtremeScores) {
  CaseOptions negative;
  negative.bias_offset = -30000;
  expect_all_right({"bwd fp16 h=1 sq=70 sk=70 d=64 bias=bh mask=causal"},
                   {emulated_target(), "portable_backward"}, negative);
  CaseOptions beyond_fp16;
  beyond_fp16.bias_offset = 7e4;
  expect_all_right({"bwd fp16 h=1 sq=70 sk=70 d=64 bias=bh bias_type=fp32 dbias"},
                   {emulated_target(), "portable_backward"}, beyond_fp16);
  CaseOptions huge;
  huge.q_scale = 1000;
  expect_all_right({"bwd fp32 h=1 sq=70 sk=70 d=64", "bwd fp32 h=1 sq=70 sk=70 d=64 scale=1e9"},
                   {emulated_target(), "portable_backward"}, huge);
  // A sink takes nearly all of a row's weight, as very many keys would: what is left for each key is
  // subnormal in fp16.
  CaseOptions small;
  small.sink_offset = 13;
  const char* const with_sink = "bwd fp16 h=1 sq=200 sk=30 d=64 sink";
  expect_all_right({with_sink}, {emulated_target(), "portable_backward"}, small);
  if (emulated_target() == "sm_90a") expect_all_right({with_sink}, {"sm_90a", "sm90_backward"}, small);
}

/// The same bits in any order of events, if requested: blocks of keys that all see a tile, one after the
/// other under a mask, or some of which see it through sink tokens.
void expect_same_bits(const char* text, const Path& path) {
  Case c(text);
  std::vector<std::uint8_t> first;
  for (const int number : {1, 2, 3}) {
    const Seed seed(number);
    c.poison_outputs();
    ASSERT_EQ(run(c, path), "") << text;
    std::vector<std::uint8_t> bytes;
    for (const regard_role role : {REGARD_GRAD_Q, REGARD_GRAD_K, REGARD_GRAD_V, REGARD_GRAD_BIAS}) {
      if (role == REGARD_GRAD_BIAS && !c.problem().dbias) continue;
      const auto of_role = c.bytes(role);
      bytes.insert(bytes.end(), of_role.begin(), of_role.end());
    }
    if (first.empty()) first = bytes;
    EXPECT_EQ(first, bytes) << text << ", seed " << number;
  }
}

TEST(EmulatedBackward, TakesTurns) {
  for (const char* text :
       {"bwd fp16 deterministic d=64 b=1 h=2 sq=70 sk=300",
        "bwd fp16 deterministic d=64 b=1 hq=2 hk=1 s=200 mask=causal",
        "bwd fp16 deterministic d=64 b=1 h=1 sq=200 sk=130 mask=window:15,0,top_left,sink=70"}) {
    expect_same_bits(text, {emulated_target(), "portable_backward"});
    if (emulated_target() == "sm_90a") expect_same_bits(text, {emulated_target(), "sm90_backward"});
  }
  if (emulated_target() == "sm_90a")
    for (const char* text : {"bwd bf16 deterministic d=160 dv=40 b=1 h=1 sq=150 sk=200 mask=causal",
                             "bwd bf16 deterministic d=64 b=1 h=1 sq=150 sk=200 mask=causal bits",
                             "bwd bf16 deterministic d=256 b=1 h=1 sq=70 sk=130"})
      expect_same_bits(text, {emulated_target(), "sm90_backward"});
  expect_same_bits("bwd fp16 deterministic d=64 b=2 h=2 sq=40 sk=130 bias=11 dbias",
                   {emulated_target(), "portable_backward"});
}

}  // namespace
}  // namespace regard::test
