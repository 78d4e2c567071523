// The kernels of cpu-amx with the tile unit emulated in C++: every layout and tail of the tile products,
// even on machines without AMX. On machines with AMX, the other tests run cpu-amx as the best target.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "kernels/support.h"

namespace regard::test {
namespace {

// A kernel that falls back to the generic one would pass its test without having run.
[[maybe_unused]] const int strict = setenv("REGARD_STRICT", "1", 1);

using Texts = std::vector<std::string>;

/// In bf16, and in fp16, whose numbers are two bf16 numbers for the unit.
void expect_forward_right(const std::string& rest, const Path& path, const CaseOptions& options = {}) {
  for (const char* dtype : {"bf16", "fp16"})
    test::expect_right(std::string("fwd ") + dtype + " lse " + rest, path, options);
}

/// Every head combined with every tail, as "pass dtype head tail", forward and backward.
void expect_right(const Texts& heads, const Texts& tails) {
  for (const std::string& head : heads) {
    for (const std::string& tail : tails) {
      expect_forward_right(head + " " + tail, {"cpu-amx-emulated", "forward"});
      for (const char* dtype : {"bf16 ", "fp16 "})
        test::expect_right(std::string("bwd ") + dtype + head + " " + tail, {"cpu-amx-emulated", "backward"});
    }
  }
}

// See Forward.NanIsNotHidden.
TEST(Amx, NanIsNotHidden) {
  for (const char* rest : {"sq=100 sk=300 d=64 mask=window:40,5", "sq=70 sk=200 d=40 mask=causal softcap=5"})
    for (const bool of_q : {true, false}) {
      test::CaseOptions options;
      (of_q ? options.nan_row : options.nan_key) = 60;
      expect_forward_right(std::string("h=2 ") + rest, {"cpu-amx-emulated", "forward"}, options);
    }
}

// 16 query rows of a K/V head. Rows of K and V that are not where the unit expects them are copied, and those
// that no query sees, which may be NaN, count as zeros.
TEST(Amx, DecodeOfSixteenRows) {
  const char* const texts[] = {
      "b=2 hq=32 hk=2 sq=1 sk=300 d=64",
      "b=2 hq=8 hk=2 sq=3 sk=131 d=96 dv=32 mask=window:50,0,sink=2 sink softcap=5",
      "b=3 hq=40 hk=2 sq=1 sk=200 d=64 layout=bhsd lengths cache=3 bias=alibi",
      "b=4 hq=16 hk=1 sq=1 sk=140 d=64 paged=16 lengths left_padding",
      "b=4 hq=16 hk=1 sq=1 sk=140 d=96 dv=64 latent paged=7 lengths",
      "b=2 hq=8 hk=1 sq=2 sk=300 d=96 dv=64 latent k_rope paged=16 lengths mask=causal",
  };
  for (const char* text : texts)
    test::expect_right(std::string("fwd bf16 lse ") + text, {"cpu-amx-emulated", "decode"});
}

TEST(Amx, HeadDimensionsAroundWholeTiles) {
  expect_right({"h=1 sq=70 sk=131"}, {"d=1", "d=7 dv=40", "d=32", "d=59", "d=64", "d=96 dv=111"});
  expect_right({"h=1 s=130 mask=causal"}, {"d=192 dv=128", "d=512 dv=500"});
}

TEST(Amx, LengthsAroundWholeTiles) {
  Texts lengths;
  for (int sk : {1, 31, 32, 33, 255, 256, 257, 400, 600}) lengths.push_back("sk=" + std::to_string(sk));
  expect_right({"h=2 d=64 sq=1", "h=2 d=64 sq=65 mask=causal", "h=2 d=64 sq=300 mask=window:30,3"}, lengths);
}

TEST(Amx, EveryMaskOnEveryShape) {
  for (const char* shape : {"sq=200 sk=300", "sq=300 sk=70"})
    expect_right({std::string("b=2 hq=4 hk=2 d=64 ") + shape}, masks);
}

// See Forward.RowsOfSeveralHeadsInATile.
TEST(Amx, RowsOfSeveralHeadsInATile) {
  for (const char* shape : {"b=2 hq=6 hk=2 sq=17 sk=300 d=64", "hq=5 hk=1 sq=70 sk=131 dv=40 d=59"})
    for (const char* rest : {"bias=bh", "softcap=3", "bias=alibi mask=causal sink", "bits layout=sbhd",
                             "ranges splits=2 sink", "lengths mask=window:40,3,sink=2"})
      expect_forward_right(std::string(shape) + " " + rest, {"cpu-amx-emulated", "forward"});
}

// With one thread, so that a block has as many rows as possible, in several tiles that see different keys.
TEST(Amx, GroupsAndSequencesThatShareKeys) {
  Texts problems = {"splits=3 b=2 sq=70 sk=1500 d=64 mask=causal",
                    "b=2 sq=100 sk=900 d=59 dv=47 layout=sbhd",
                    "b=9 sq=70 sk=300 d=64 layout=sbhd",  // rows too far apart to be read in place
                    "b=2 sq=70 sk=352 d=96 layout=bshd",
                    "varlen b=5 sq=150 sk=600 tq=400 tk=2000 d=64",
                    "varlen b=5 sq=150 sk=600 tq=400 tk=2000 d=64 lengths mask=causal",
                    "b=3 sq=90 sk=600 d=64 lengths",
                    "sq=40 sk=1200 d=64 mask=window:30,5",
                    "sq=40 sk=1200 d=64 mask=window:30,5,sink=7",
                    "sq=600 sk=300 d=64 mask=causal"};
  for (const std::string& mask : masks) problems.push_back("b=2 d=64 sq=100 sk=600 " + mask);
  for (const char* mask : {"mask=window:60,90,top_left,sink=300", "mask=window:20,300,sink=270"})
    problems.push_back(std::string("d=64 sq=300 sk=900 ") + mask);
  for (const std::string& problem : problems)
    expect_forward_right(
        "hq=6 hk=2 " + problem,
        {"cpu-amx-emulated", problem.starts_with("splits") ? "forward_split" : "forward", 1});
}

TEST(Amx, ScoreModifiers) {
  expect_right({"b=2 hq=4 hk=2 d=64 sq=100 sk=400 mask=causal"},
               {"softcap=5", "bias=bh", "bias=alibi softcap=2", "dropout=0.3", "sink", "scale=-0.2"});
  expect_right({"varlen b=5 hq=4 hk=2 sq=150 sk=170 tq=400 tk=450 d=64"}, {"", "lengths mask=causal"});
  for (const char* dtype : {"bf16", "fp16"})
    for (const char* cap : {"", "softcap=0.5"})
      test::expect_right(fmt::format("bwd {} b=2 h=2 sq=100 sk=400 d=64 bias=11 dbias {}", dtype, cap),
                         {"cpu-amx-emulated", "backward"});
  expect_forward_right("splits=3 h=1 sq=70 sk=1500 d=64 mask=causal", {"cpu-amx-emulated", "forward_split"});
}

// Whole tiles of queries that see nothing of the first block of keys (of 256), and some that do.
TEST(Amx, BackwardOfQueriesThatTheFirstKeysAreHiddenFrom) {
  for (const char* dtype : {"bf16", "fp16"}) {
    Case c(std::string("bwd ") + dtype + " h=2 sq=192 sk=700 d=40 ranges", {.forward_inputs = false});
    for (std::int64_t row = 0; row < 2 * 192; ++row) {
      c.set(REGARD_RANGES, 2 * row, row % 192 < 64 ? 5 : 290 + row % 9);
      c.set(REGARD_RANGES, 2 * row + 1, 690 - row % 7);
    }
    c.compute_forward_inputs();
    EXPECT_EQ(run(c, {"cpu-amx-emulated", "backward"}), "");
    const auto expected = oracle::run(c.problem(), c.arguments());
    ASSERT_TRUE(expected);
    EXPECT_EQ(c.mistakes(*expected), "") << dtype;
  }
}

// With blocks of keys that take turns, and with parts of the queries that are added up.
TEST(Amx, BackwardHasTheSameBitsForAnyNumberOfThreads) {
  for (const char* problem :
       {"bwd bf16 h=2 sq=300 sk=700 d=40 mask=causal", "bwd bf16 hq=7 hk=1 sq=300 sk=400 d=24 mask=causal",
        "bwd fp16 hq=4 hk=1 sq=500 sk=600 d=24 mask=window:200,0", "bwd fp16 h=1 sq=4200 sk=300 d=7"})
    for (int threads : {2, 3, 16})
      expect_same_bits(problem, {"cpu-amx-emulated", "backward", 1},
                       {"cpu-amx-emulated", "backward", threads});
}

}  // namespace
}  // namespace regard::test
