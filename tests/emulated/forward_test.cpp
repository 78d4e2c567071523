// GPU kernels against the oracle, on machines without a GPU. An emulated multiprocessor needs a millisecond
// for a microsecond of a real one: problems are as small as their purpose allows.
#include <gtest/gtest.h>

#include <algorithm>

#include "emulated/device.h"
#include "kernels/support.h"
#include "support/part.h"

namespace regard::test {
namespace {

bool hopper() {
  return emulated_target() == "sm_90a";
}

// Two or more turns of a block in its persistent kernel, partly filled tiles, every kind of work.
const std::vector<std::string> hopper_problems = {
    "fwd bf16 lse d=128 b=2 hq=4 hk=2 s=300",
    "fwd bf16 lse d=128 b=2 hq=4 hk=2 sq=513 sk=77 mask=causal",
    "fwd fp16 lse d=64 b=1 h=2 s=700 mask=causal",
    "fwd bf16 lse d=256 b=2 h=2 s=300 mask=window:30,3",
    "fwd fp16 lse d=192 dv=128 b=1 h=2 s=400 mask=window:40,0,sink=5 softcap=20",
    "fwd bf16 lse d=72 dv=112 b=3 hq=4 hk=2 s=200 tq=450 tk=450 varlen mask=causal",
    "fwd bf16 lse d=40 b=3 hq=4 hk=2 sq=100 sk=200 lengths mask=causal sink",
    "fwd bf16 lse d=64 b=2 h=2 sq=200 sk=0",
    "fwd bf16 lse d=128 b=2 h=3 s=200 layout=bhsd scale=0.2",
    // Rows whose scores jump so far that they are redone.
    "fwd bf16 lse d=128 b=1 h=3 s=300 mask=causal scale=60",
    "fwd fp16 lse row_max d=96 dv=104 b=2 h=2 s=500 tq=700 tk=700 varlen scale=40",
    "fwd bf16 lse d=256 b=1 h=3 sq=500 sk=1100 mask=window:1100,-1",  // hides nothing
    // Three warpgroups, which the plan chooses if larger blocks save a round (plan_test.cpp), in one turn
    // and two.
    "fwd bf16 lse d=64 b=1 h=70 sq=190 sk=300",
    "fwd bf16 lse d=128 b=2 h=35 sq=190 sk=170",
    "fwd bf16 lse row_max d=128 b=1 h=70 s=190 scale=60",
    "fwd fp16 lse d=128 b=2 hq=70 hk=35 sq=190 sk=260 mask=causal",
    "fwd fp8 out=bf16 lse d=128 b=2 h=100 sq=190 sk=200 mask=causal",
    "fwd fp8 out=bf16 lse d=128 b=1 h=70 s=190 scale=60",
    "fwd fp8_e5m2 out=fp16 lse d=64 b=1 h=70 s=190",
    // Tiles that a warpgroup does not see: it skips the scores, or the tile, or two of them.
    "fwd bf16 lse d=64 b=1 h=100 sq=190 sk=300 mask=causal",
    "fwd bf16 lse d=192 b=1 h=2 s=400 mask=causal softcap=20 scale=60",
    "fwd bf16 lse d=256 b=1 h=2 sq=256 sk=161 mask=window:30,0,top_left,sink=5",
    // Scores near 0, where a soft cap's tanh is a polynomial, far from it, and both in a tile.
    "fwd bf16 lse d=64 b=1 h=2 s=500 softcap=30",
    "fwd fp16 lse d=128 b=1 h=2 s=500 softcap=0.01 mask=causal",
    "fwd bf16 lse d=256 b=1 h=2 s=400 softcap=4 mask=causal",
    "fwd fp8 out=bf16 lse d=128 b=1 h=2 s=300 softcap=5",
    // Pairs in small groups and a large one.
    "fwd bf16 lse d=64 b=10 h=30 s=200 mask=causal",
    // Heads packed into blocks, keys in parts.
    "fwd bf16 lse d=64 b=2 hq=8 hk=1 sq=1 sk=1000 mask=causal",
    "fwd bf16 lse row_max d=128 b=3 hq=8 hk=2 sq=20 sk=2000 splits=5 lengths sink mask=causal",
    "fwd fp16 lse d=128 b=3 hq=4 hk=2 sq=40 sk=900 tq=90 tk=2000 splits=3 varlen softcap=20 "
    "mask=window:200,3,sink=5",
    "fwd bf16 lse d=256 b=1 h=2 sq=30 sk=1500 splits=4",
    "fwd bf16 lse d=256 b=2 hq=6 hk=2 sq=9 sk=500 mask=causal scale=60",
    "fwd bf16 lse row_max d=256 b=2 hq=8 hk=2 sq=3 sk=400 softcap=5 lengths mask=causal",
    "fwd fp16 lse d=192 dv=120 b=2 hq=16 hk=1 sq=3 sk=900 splits=2 mask=window:400,1,sink=3 sink",
    "fwd fp16 lse d=184 b=1 hq=5 hk=1 sq=2 sk=300 lengths softcap=20",
    "fwd bf16 lse d=256 b=2 hq=8 hk=1 sq=12 sk=300 softcap=5",
    "fwd fp16 lse d=240 b=1 hq=8 hk=1 sq=12 sk=700 splits=2 mask=causal softcap=5",
    // Soft caps at both ends of the kernel's range, and weights that jump so far that rows are redone.
    "fwd bf16 lse d=64 b=1 h=2 s=300 softcap=0.0001",
    "fwd fp16 lse row_max d=64 b=1 h=2 s=300 softcap=1024 scale=20",
    "fwd fp16 lse d=64 b=1 h=2 s=300 softcap=1000 scale=1e-6",
    "fwd bf16 lse d=128 b=1 h=2 s=300 mask=causal softcap=100 scale=60",
    "fwd bf16 lse d=128 b=3 hq=40 hk=4 sq=3 sk=400 lengths mask=window:90,0",
    "fwd fp8 out=bf16 lse d=64 b=3 hq=8 hk=1 sq=1 sk=600 lengths",
    // ALiBi: tiles left of the diagonal, on it and right of it; heads packed into blocks, with a soft cap.
    "fwd bf16 lse d=64 b=2 hq=4 hk=2 s=400 bias=alibi",
    "fwd fp16 lse d=128 b=2 h=3 sq=300 sk=500 bias=alibi_b mask=causal",
    "fwd bf16 lse d=128 b=3 hq=4 hk=2 s=300 tq=700 tk=700 varlen lengths bias=alibi softcap=20",
    "fwd bf16 lse d=256 b=2 hq=6 hk=2 sq=9 sk=500 bias=alibi_b mask=window:200,-1,sink=3",
    "fwd fp16 lse d=128 b=2 hq=8 hk=2 sq=3 sk=2000 splits=4 lengths bias=alibi softcap=3",
    "fwd fp8 out=bf16 lse d=128 b=1 h=2 s=300 bias=alibi scale=0.1",
    // Dropout, in tiles of 128 and 80 keys.
    "fwd bf16 lse d=128 b=3 hq=4 hk=2 s=300 tq=700 tk=700 varlen lengths dropout=0.5 bias=alibi mask=causal",
    "fwd bf16 lse row_max d=256 b=1 h=2 sq=200 sk=700 dropout=0.2 softcap=20",
    "fwd fp16 lse d=64 b=2 h=3 sq=300 sk=200 lengths dropout=0.4 mask=window:40,9",
    // Bits at random: every tile is mixed; heads packed into blocks, keys in parts.
    "fwd bf16 lse d=128 b=2 hq=4 hk=2 sq=200 sk=333 bits mask=causal",
    "fwd fp16 lse d=256 b=1 h=2 sq=200 sk=333 bits mask=window:100,5,sink=3",
    "fwd bf16 lse d=64 b=3 hq=8 hk=2 sq=12 sk=900 lengths splits=2 bits",
    // Ranges, with rows that see nothing, or nothing but sinks.
    "fwd fp16 lse d=72 dv=112 b=3 hq=4 hk=2 s=200 tq=450 tk=450 varlen ranges mask=causal",
    "fwd bf16 lse d=256 b=1 h=2 sq=200 sk=333 ranges mask=window:100,5,sink=30",
    "fwd bf16 lse d=64 b=2 hq=8 hk=2 sq=12 sk=900 lengths splits=2 ranges mask=window:300,5,sink=40",
    "fwd bf16 lse d=128 b=2 hq=4 hk=2 sq=200 sk=333 ranges mask=causal bits",
    // 8-bit types, where V is transposed on the way.
    "fwd fp8 out=bf16 lse d=128 b=1 h=2 s=300 mask=causal",
    "fwd fp8_e5m2 out=fp16 lse d=64 b=2 h=2 s=300",
    "fwd fp8 out=bf16 lse d=256 b=1 h=2 s=250",
    "fwd fp8 out=bf16 lse d=256 dv=208 b=1 h=2 s=150",
    "fwd fp8 out=bf16 lse row_max d=256 b=1 h=2 s=200 softcap=5 mask=causal",
    // One step of a product, and two.
    "fwd bf16 lse d=8 b=1 h=2 s=150",
    "fwd fp16 lse d=24 b=1 h=2 s=150 mask=causal",
    "fwd fp8 out=bf16 lse d=96 dv=112 b=2 hq=4 hk=2 s=200 tq=350 tk=350 varlen",
};

/// In clusters of two blocks: rows that see other tiles than their neighbours do, or none, an odd block,
/// work in steps and from a counter, rows that are redone.
const std::vector<std::string> cluster_problems = {
    "fwd bf16 lse d=128 b=1 hq=4 hk=2 s=700",
    "fwd fp16 lse d=104 dv=120 b=1 h=3 sq=500 sk=1000 mask=window:300,5,sink=7",
    "fwd bf16 lse d=128 b=2 h=40 sq=500 sk=300 mask=causal",
    "fwd fp16 lse d=120 b=1 h=40 s=640 mask=causal scale=60 sink",
    "fwd bf16 lse d=128 b=1 h=2 sq=1000 sk=700 mask=window:-1,90,top_left",
    // The last rows of a block see nothing, others do.
    "fwd bf16 lse d=128 b=1 h=3 sq=616 sk=388 mask=window:198,13,top_left",
};
const std::vector<std::string> wide_cluster_problems = {
    "fwd bf16 lse d=256 b=1 h=4 s=700",
    "fwd bf16 lse d=256 b=1 h=17 s=1000 mask=causal",
    "fwd fp16 lse d=200 dv=240 b=1 hq=4 hk=2 s=700 mask=window:300,5,sink=7 scale=3",
    "fwd bf16 lse d=192 dv=128 b=1 h=3 s=900 mask=causal",
    "fwd fp16 lse d=256 b=1 h=3 s=700 mask=causal softcap=20",
};

const std::vector<std::string> portable_problems = {
    "fwd fp16 lse d=64 b=2 hq=4 hk=2 s=150 mask=causal",
    "fwd fp16 lse row_max d=40 b=2 h=2 s=120 dropout=0.2 mask=causal",
    "fwd fp16 lse row_max d=128 b=2 h=2 sq=20 sk=600 splits=4 mask=causal",
    "fwd fp16 lse d=64 b=3 hq=4 hk=2 s=100 tq=250 tk=250 varlen lengths bias=alibi",
    "fwd fp16 lse d=128 b=1 h=2 sq=40 sk=300 splits=2 softcap=3 bias=bh scale=1",
    "fwd fp16 lse d=64 b=2 h=2 sq=70 sk=101 bias=1h bias_type=fp32 mask=causal",
    // Heads of one row as rows of one head, and features that depend on the head.
    "fwd fp16 lse d=64 b=3 hq=70 hk=1 sq=1 sk=300 lengths mask=causal",
    "fwd fp16 lse d=64 b=2 hq=8 hk=2 sq=1 sk=700 splits=3 softcap=20 layout=bhsd",
    "fwd fp16 lse d=64 b=2 hq=8 hk=2 sq=1 sk=150 mask=causal sink",
};
const std::vector<std::string> portable_problems_from_sm_80 = {
    "fwd bf16 lse d=128 b=2 hq=4 hk=2 s=150",
    "fwd fp32 lse d=64 b=2 hq=4 hk=2 sq=100 sk=150 mask=causal",
    "fwd bf16 lse row_max d=64 b=2 h=2 s=150 bits ranges",
    "fwd bf16 lse d=300 b=1 h=2 s=100 bias=bh",
    "fwd bf16 lse row_max d=64 b=2 hq=4 hk=2 sq=40 sk=130 bias=bh bias_type=fp32",
    "fwd bf16 lse d=59 b=1 h=2 s=130 mask=window:30,3,sink=5 softcap=20 sink",
    "fwd fp16 lse d=128 b=1 h=2 s=150 softcap=3 scale=1",
    "fwd bf16 lse d=128 b=1 h=1 sq=130 sk=200 dropout=0.7 bias=bh mask=window:60,2",
    "fwd fp32 lse d=64 b=1 h=1 s=70 dropout=0.3 softcap=1",
    "fwd bf16 lse d=64 b=2 hq=4 hk=2 sq=100 sk=150 softcap=2 bias=alibi_b mask=causal",
    "fwd fp32 lse row_max d=59 b=1 h=2 sq=70 sk=130 softcap=1 bias=1h sink",
    "fwd bf16 lse d=64 b=1 h=1 s=70 dropout=0.502 dropout_mask",
    "fwd bf16 lse d=64 b=1 h=1 s=70 dropout=0.498",
    "fwd fp16 lse d=64 b=1 h=1 s=70 dropout=0.99609375",
    "fwd fp16 lse d=64 b=1 h=1 s=70 dropout=0.00390625",
    // Two warps share rows.
    "fwd bf16 lse d=256 b=1 hq=2 hk=1 s=130 mask=causal bits",
    "fwd fp16 lse row_max d=231 dv=137 b=2 h=1 s=70 lengths dropout=0.2 bias=alibi sink",
    "fwd bf16 lse row_max d=256 dv=7 b=1 h=2 sq=1 sk=300 splits=3 scale=-60",
};

TEST(Emulated, HopperIsRight) {
  if (!hopper()) GTEST_SKIP() << "a kernel of sm_90a";
  expect_all_right(hopper_problems, {emulated_target(), "sm90_forward"});
}

TEST(Emulated, ClustersAreRight) {
  if (!hopper()) GTEST_SKIP() << "a kernel of sm_90a";
  for (const char* tile : {"cluster=2 block_q=128", "cluster=2 block_q=192"})
    expect_all_right(cluster_problems, {emulated_target(), tile});
  expect_all_right(wide_cluster_problems, {emulated_target(), "cluster=2"});
  // Tiles of 192 rows have no soft cap, no bias and no dropout.
  expect_all_right({"fwd bf16 lse d=128 b=2 h=40 sq=500 sk=300 mask=causal softcap=4",
                    "fwd fp16 lse d=128 b=1 hq=4 hk=2 s=700 bias=alibi dropout=0.1"},
                   {emulated_target(), "cluster=2 block_q=128"});
}

TEST(Emulated, PortableIsRight) {
  expect_all_right(portable_problems, {emulated_target(), "portable_forward"});
  if (emulated_target() != "sm_75")
    expect_all_right(portable_problems_from_sm_80, {emulated_target(), "portable_forward"});
  // Two tiles being loaded, with K and V of the same shape and not.
  if (hopper())
    expect_all_right({"fwd bf16 lse d=128 b=1 h=2 s=300 mask=window:150,9 softcap=3 dropout=0.6",
                      "fwd fp16 lse d=128 dv=64 b=1 h=1 s=300 bits",
                      "fwd bf16 lse d=128 b=1 h=1 sq=70 sk=600 splits=2 dropout=0.3",
                      "fwd bf16 lse d=126 b=1 h=1 sq=70 sk=600 splits=2"},
                     {emulated_target(), "portable_forward stages=2"});
}

/// V is 0 at the keys that rows see best: O is made of weights that fp16 and 8-bit types can hardly
/// represent.
TEST(Emulated, SmallWeightsAlone) {
  CaseOptions options;
  options.v_rectified = true;
  std::vector<std::string> families = {"portable_forward"};
  if (hopper()) families.emplace_back("sm90_forward");
  for (const std::string& family : families)
    for (const char* words :
         {"fp16 scale=1", "fp16 scale=3", "fp8 out=bf16 scale=1", "fp8 out=bf16 scale=3"}) {
      if (emulated_target() == "sm_75" && std::string(words).starts_with("fp8")) continue;
      expect_right(std::string("fwd lse h=2 s=128 d=64 ") + words, {emulated_target(), family}, options);
    }
}

/// Scores that rise, early or late in a row, to the limit of weights and far beyond, and O made of weights
/// that are small compared with the largest.
void expect_jumps_are_right(const std::string& family, const std::vector<std::string>& problems,
                            const std::vector<double>& jumps) {
  for (const std::string& words : problems)
    for (const double jump : jumps)
      for (const bool late : {false, true}) {
        if (!takes_next_problem()) continue;
        Case c("fwd lse scale=1 splits=1 b=1 sk=400 " + words);
        const Problem& p = c.problem();
        for (const regard_role role : {REGARD_Q, REGARD_K, REGARD_V})
          for (std::int64_t i = 0; i < c.count(role); ++i) {
            const std::int64_t key = i / (p.hk * p.d), column = i % p.d;
            const bool high = late ? key >= 200 : key < 200, top = key == (late ? 395 : 5);
            double value = 0;
            if (role == REGARD_Q) value = column == 0 ? 8 : 0;
            if (role == REGARD_K && column == 0 && high) value = top ? jump + 1 : jump;
            if (role == REGARD_V) value = top ? 0 : 1;
            c.set(role, i, value);
          }
        ASSERT_EQ(run(c, {emulated_target(), family}), "") << c.description();
        const auto expected = oracle::run(p, c.arguments(), {2, 0, 0});
        ASSERT_TRUE(expected) << expected.error().message;
        EXPECT_EQ(c.mistakes(*expected), "")
            << family << ", " << words << ", jump " << 8 * jump << (late ? ", late" : "");
      }
}
TEST(Emulated, SmallWeightsBesideAJump) {
  if (!hopper()) GTEST_SKIP() << "a kernel of sm_90a";
  const std::vector<double> jumps = {1, 5, 5.5, 11};
  expect_jumps_are_right(
      "sm90_forward",
      {"bf16 h=1 sq=16 d=64", "fp16 row_max h=1 sq=16 d=64", "fp8 out=bf16 row_max h=1 sq=16 d=64"}, jumps);
  // Three warpgroups are slow.
  expect_jumps_are_right("sm90_forward", {"fp8 out=bf16 h=70 sq=190 d=64"}, {5.5});
}
/// Tiles of one and of two fragments of rows, with one stage and two, K in steps, which are loaded again,
/// and warps that share rows.
TEST(Emulated, PortableFollowsJumps) {
  const std::vector<double> jumps = {1, 5, 11};
  expect_jumps_are_right("portable_forward", {"fp16 h=1 sq=16 d=64", "fp16 row_max h=1 sq=70 d=128"}, jumps);
  if (emulated_target() == "sm_75") return;
  expect_jumps_are_right("portable_forward", {"bf16 h=1 sq=16 d=64", "fp32 h=1 sq=16 d=64"}, jumps);
  expect_jumps_are_right("portable_forward",
                         {"bf16 row_max h=1 sq=70 d=300 dv=40", "fp16 row_max h=1 sq=70 d=256 dv=40"},
                         {1, 11});
}

TEST(Emulated, ABiasBeyondHalfPrecision) {
  for (const double offset : {-1e5, 7e4}) {
    CaseOptions options;
    options.bias_offset = offset;
    expect_right("fwd fp16 lse h=1 sq=40 sk=70 d=64 bias=bh bias_type=fp32",
                 {emulated_target(), "portable_forward"}, options);
  }
}

/// Slopes of either sign, and so steep that scores of a tile overflow relative to the next tile's maximum.
void expect_alibi_of_either_sign(const std::string& problem, const std::string& family) {
  for (const double slope : {-0.5, 0.25, 3.0, -3.0}) {
    Case c(problem);
    for (std::int64_t i = 0; i < c.count(REGARD_ALIBI); ++i) c.set(REGARD_ALIBI, i, slope);
    ASSERT_EQ(run(c, {emulated_target(), family}), "");
    const auto expected = oracle::run(c.problem(), c.arguments(), {2, 0, 0});
    ASSERT_TRUE(expected) << expected.error().message;
    EXPECT_EQ(c.mistakes(*expected), "") << "slope " << slope;
  }
}

TEST(Emulated, PortableAlibiOfEitherSign) {
  expect_alibi_of_either_sign("fwd fp16 lse b=1 h=2 sq=100 sk=150 d=64 bias=alibi", "portable_forward");
}

TEST(Emulated, HopperAlibiOfEitherSign) {
  if (!hopper()) GTEST_SKIP() << "a kernel of sm_90a";
  expect_alibi_of_either_sign("fwd fp16 lse b=1 h=2 sq=100 sk=400 d=64 bias=alibi", "sm90_forward");
}

/// The order in which threads run, loads arrive and products end changes no bit.
TEST(Emulated, BitsDoNotDependOnTheOrderOfEvents) {
  const auto same = [](const std::string& problem, const std::string& family) {
    if (!takes_next_problem()) return;
    Case c(problem);
    std::vector<std::uint8_t> first;
    for (const int number : {1, 2, 3}) {
      const Seed seed(number);
      c.poison_outputs();
      ASSERT_EQ(run(c, {emulated_target(), family}), "") << problem;
      const auto bytes = c.bytes(REGARD_O);
      if (first.empty()) first.assign(bytes.begin(), bytes.end());
      EXPECT_TRUE(std::equal(first.begin(), first.end(), bytes.begin(), bytes.end()))
          << problem << ", seed " << number;
    }
  };
  same("fwd fp16 d=64 b=1 h=2 sq=100 sk=200 mask=causal", "portable_forward");
  same("fwd fp16 d=256 b=1 h=1 sq=100 sk=200 mask=causal scale=60", "portable_forward");
  if (!hopper()) return;
  same("fwd bf16 d=128 b=1 h=3 s=300 mask=causal", "sm90_forward");
  same("fwd bf16 d=128 b=2 h=4 s=300 mask=causal scale=60", "sm90_forward");
  same("fwd bf16 d=256 b=1 h=4 s=700", "cluster=2");
  same("fwd bf16 d=128 b=1 h=20 s=900 mask=causal", "cluster=2 block_q=128");
  same("fwd fp8 out=bf16 d=128 b=1 h=2 s=300", "sm90_forward");
  same("fwd fp8 out=bf16 d=128 b=1 h=70 s=190", "sm90_forward");
  same("fwd bf16 d=128 b=2 h=35 sq=190 sk=170", "sm90_forward");
  same("fwd bf16 d=128 b=2 hq=4 hk=2 sq=20 sk=900 splits=3", "sm90_forward");
}

/// A window that hides nothing uses the kernel without a mask; next to longer sequences it may not.
TEST(Emulated, ARowHasTheSameBitsAloneAndPacked) {
  if (!hopper()) GTEST_SKIP() << "a kernel of sm_90a";
  for (const char* type :
       {"bf16 d=64", "bf16 d=128", "bf16 d=256", "fp8 out=bf16 d=64", "fp8 out=bf16 d=128"}) {
    if (!takes_next_problem()) continue;
    const std::string words = std::string("fwd lse batch_invariant b=1 h=2 mask=window:700,-1 ") + type;
    Case alone(words + " s=300"), varlen(words + " s=1000 varlen tq=300 tk=300");
    for (const regard_role role : {REGARD_Q, REGARD_K, REGARD_V})
      for (std::int64_t i = 0; i < alone.count(role); ++i) varlen.set(role, i, alone.get(role, i));
    for (Case* c : {&alone, &varlen}) ASSERT_EQ(run(*c, {emulated_target(), "sm90_forward"}), "") << words;
    for (const regard_role role : {REGARD_O, REGARD_LSE})
      EXPECT_TRUE(alone.bytes(role) == varlen.bytes(role)) << words;
  }
}

/// See Forward.NanIsNotHidden.
TEST(Emulated, NanIsNotHidden) {
  const auto expect = [](const std::string& family, const std::string& words, std::int64_t row,
                         std::int64_t key) {
    CaseOptions options;
    options.nan_row = row, options.nan_key = key;
    expect_right("fwd lse " + words, {emulated_target(), family}, options);
  };
  const auto expect_both = [&](const std::string& family, const std::string& words) {
    expect(family, words, 0, -1);
    expect(family, words, -1, 130);
  };
  for (const char* words :
       {"fp16 h=2 s=150 d=64 mask=window:20,3", "fp16 hq=4 hk=1 sq=1 sk=600 d=64 mask=window:30,0 splits=3",
        "fp16 hq=4 hk=1 sq=1 sk=600 d=64 mask=window:30,0 splits=3 sink"})
    expect_both("portable_forward", words);
  if (emulated_target() != "sm_75")
    expect_both("portable_forward", "bf16 h=1 s=150 d=256 mask=causal softcap=5");
  if (!hopper()) return;
  for (const char* words :
       {"bf16 h=2 s=200 d=64", "fp16 h=2 s=200 d=128 mask=causal",
        "bf16 h=2 s=200 d=256 mask=window:20,3 softcap=5", "bf16 h=4 s=700 d=256 mask=causal",
        "bf16 hq=8 hk=2 sq=3 sk=600 d=128 splits=3 sink mask=window:40,0", "fp8 out=bf16 h=2 s=200 d=64"})
    expect_both("sm90_forward", words);
}

/// Scores near 0 have the same bits when a neighbour's come near the soft cap and tanh takes its other form.
TEST(Emulated, ASoftCapOfARowTakesNoNoticeOfItsNeighbours) {
  const auto same = [](const std::string& family, const std::string& words) {
    if (!takes_next_problem()) return;
    Case quiet("fwd lse b=1 h=1 s=520 softcap=4 " + words), loud("fwd lse b=1 h=1 s=520 softcap=4 " + words);
    const std::int64_t d = quiet.problem().d, dv = quiet.problem().dv;
    const auto is_loud = [](std::int64_t row) { return row % 16 == 3; };
    for (const regard_role role : {REGARD_Q, REGARD_K, REGARD_V}) {
      for (std::int64_t i = 0; i < quiet.count(role); ++i) {
        const double value = quiet.get(role, i) * (role == REGARD_Q ? 0.25 : 1);
        quiet.set(role, i, value);
        loud.set(role, i, role == REGARD_Q && is_loud(i / d) ? value * 64 : value);
      }
    }
    for (Case* c : {&quiet, &loud}) ASSERT_EQ(run(*c, {emulated_target(), family}), "") << words;
    std::int64_t others = 0, changed = 0;
    for (std::int64_t i = 0; i < quiet.count(REGARD_O); ++i)
      if (quiet.get(REGARD_O, i) != loud.get(REGARD_O, i)) ++(is_loud(i / dv) ? changed : others);
    EXPECT_EQ(others, 0) << family << ", " << words;
    EXPECT_GT(changed, 0) << family << ", " << words;
  };
  same("portable_forward", "fp16 d=64");
  if (emulated_target() != "sm_75") same("portable_forward", "bf16 d=128 mask=causal");
  if (!hopper()) return;
  same("portable_forward", "fp16 d=256");  // two warps share rows
  same("sm90_forward", "fp16 d=64");
  same("sm90_forward", "bf16 d=256 mask=causal");
  same("sm90_forward", "fp8 out=bf16 d=128");
  same("sm90_forward", "fp8 out=bf16 d=256");
}

}  // namespace
}  // namespace regard::test
