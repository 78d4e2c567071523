// Edge cases of backward: sizes around tiles, memory past the end of sequences, sequences without rows or
// keys, memory with any contents.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "kernels/backward_support.h"

namespace regard::test {
namespace {

using backward::Entry;
using backward::expect_right;
using backward::expect_same_bits;
using backward::product;
using backward::Texts;

bool on_gpu() {
  return is_gpu(runnable_targets().front());
}

struct Size {
  int sq, sk;
};

/// Every size combined with the next of some words in turn; on a GPU, whose tiles differ, with all of them.
std::vector<Entry> each_size(const std::vector<Size>& sizes, const Texts& words,
                             const CaseOptions& options = {}) {
  std::vector<Entry> entries;
  for (std::size_t i = 0; i < sizes.size(); ++i)
    for (std::size_t j = 0; j < words.size(); ++j)
      if (on_gpu() || j == i % words.size())
        entries.push_back({fmt::format("bwd {} sq={} sk={}", words[j], sizes[i].sq, sizes[i].sk), options});
  return entries;
}

// The sizes in flash_attn's tests.
TEST(Backward, SizesThatOthersTest) {
  expect_right(
      each_size({{1, 1},
                 {64, 128},
                 {128, 192},
                 {256, 256},
                 {239, 1},
                 {799, 3},
                 {113, 203},
                 {113, 128},
                 {128, 217},
                 {113, 211},
                 {108, 256},
                 {256, 512},
                 {384, 256},
                 {640, 128},
                 {512, 256}},
                {"bf16 hq=2 hk=2 d=64", "bf16 hq=6 hk=2 d=64 mask=causal", "bf16 hq=3 hk=1 d=64 softcap=15",
                 "bf16 hq=2 hk=2 d=64 mask=window:70,20", "fp16 hq=2 hk=1 d=64"}));
  expect_right(
      each_size({{1024, 1024}, {1023, 1024}, {1024, 1023}},
                {"bf16 h=1 d=64", "bf16 hq=2 hk=1 d=64 mask=causal", "bf16 h=1 d=64 mask=window:70,20"}));
  if (!on_gpu()) return;  // the oracle is slow for these
  expect_right({{"bwd bf16 h=1 d=64 sq=4096 sk=4096 mask=causal"}, {"bwd bf16 h=1 d=128 sq=4224 sk=4224"}});
}

/// Partial tiles of 128, 80 and 64 rows or keys, on both sides.
const std::vector<Size> tails = {{129, 255}, {191, 192}, {192, 191}, {193, 193}, {255, 129},
                                 {63, 65},   {65, 63},   {81, 319},  {1, 127},   {127, 1}};

TEST(Backward, TailsOnBothSides) {
  expect_right(each_size(tails, {"bf16 hq=2 hk=1 d=64", "bf16 hq=2 hk=1 d=64 mask=causal"}));
  if (!on_gpu()) return;
  expect_right(each_size(tails, {"bf16 h=2 d=128", "bf16 h=2 d=128 mask=causal", "bf16 h=2 d=192 dv=128",
                                 "bf16 h=2 d=256 mask=causal_top_left", "bf16 h=2 d=96", "fp32 h=2 d=64"}));
}

/// Scores of about -300 at d = 64.
const Numbers far_below_zero = {
    "scores far below 0", [](const Problem&, regard_role role, std::int64_t, std::int64_t column) {
      const bool first = column == 0 && (role == REGARD_Q || role == REGARD_K);
      return first ? std::optional(role == REGARD_Q ? 40.0 : -60.0) : std::nullopt;
    }};

// A key past the last one, if taken for zeros, would have a weight of e^300.
TEST(Backward, TailsOfSequencesWhoseLseIsFarBelowZero) {
  CaseOptions options;
  options.numbers = &far_below_zero;
  expect_right(each_size(tails, {"bf16 h=2 d=64", "bf16 h=2 d=64 mask=causal", "fp32 h=2 d=64"}, options));
  expect_right(product({"bf16 varlen b=4 hq=4 hk=2 sq=190 sk=170 tq=500 tk=450 d=64 lengths"},
                       {"", "mask=causal"}, options));
  if (!on_gpu()) return;
  expect_right(each_size(
      tails, {"bf16 h=2 d=128", "bf16 h=2 d=256 mask=causal", "bf16 h=2 d=192 dv=128", "fp16 h=2 d=96"},
      options));
}

TEST(Backward, NothingBehindASequenceGetsIn) {
  CaseOptions options;
  options.nan_behind = true;
  Texts heads = {"bf16 varlen b=5 hq=4 hk=2 sq=150 sk=170 tq=440 tk=450 d=64 lengths",
                 "fp32 lengths b=4 h=2 sq=90 sk=130 d=32"};
  if (on_gpu()) {
    for (const char* d : {"d=128", "d=256", "d=192 dv=128", "d=40"}) {
      heads.push_back(fmt::format("bf16 varlen b=5 hq=4 hk=2 sq=150 sk=170 tq=440 tk=450 {} lengths", d));
      heads.push_back(fmt::format("bf16 lengths b=4 hq=4 hk=2 sq=190 sk=170 {}", d));
    }
  }
  expect_right(product(heads, {"", "mask=causal", "mask=window:20,0,sink=4 sink"}, options));
}

TEST(Backward, GroupsOfHeads) {
  expect_right(product({"bf16 d=64 sq=70 sk=131 hq=1 hk=1", "bf16 d=64 sq=70 sk=131 hq=3 hk=1",
                        "bf16 d=64 sq=70 sk=131 hq=16 hk=2", "bf16 d=64 sq=70 sk=131 hq=64 hk=1"},
                       {"", "mask=causal", "mask=window:15,0,sink=3"}));
}

/// Sets how many rows and keys each sequence of a batch has.
void set_sizes(Case& c, const std::vector<Size>& sizes) {
  int rows = 0, keys = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    c.set(REGARD_OFFSETS_Q, static_cast<std::int64_t>(i) + 1, rows += sizes[i].sq);
    c.set(REGARD_OFFSETS_K, static_cast<std::int64_t>(i) + 1, keys += sizes[i].sk);
  }
  c.compute_forward_inputs();
}

TEST(Backward, SequencesWithoutRowsOrKeys) {
  const std::vector<Size> sizes = {{0, 70}, {65, 0}, {0, 0}, {130, 64}, {1, 1}, {64, 130}, {0, 5}, {7, 0}};
  CaseOptions options;
  options.forward_inputs = false;
  const std::string head = "bwd varlen b=8 sq=130 sk=130 tq=267 tk=270 ";
  for (const char* rest : {"bf16 hq=4 hk=2 d=64", "bf16 hq=4 hk=2 d=64 mask=causal sink",
                           "bf16 hq=8 hk=1 d=128 deterministic", "fp32 h=2 d=40 mask=window:20,5"}) {
    for (const std::string& target : runnable_targets()) {
      Case c(head + rest, options);
      set_sizes(c, sizes);
      ASSERT_EQ(run(c, {target, "backward"}), "") << c.description() << " on " << target;
      const auto expected = oracle::run(c.problem(), c.arguments(), {2, 0, 0});
      ASSERT_TRUE(expected) << expected.error().message;
      EXPECT_EQ(c.mistakes(*expected), "") << c.description() << " on " << target;
    }
    if (!on_gpu()) break;
  }
}

TEST(Backward, GradientsOfABiasHaveTheSameBits) {
  for (const char* bias : {"bias=11 dbias", "bias=1h dbias", "bias=b1 dbias", "bias=bh dbias"}) {
    for (const char* dtype : {"fp32", "bf16"}) {
      const std::string text = fmt::format(
          "{} d=32 b=3 hq=4 hk=2 sq=70 sk=210 deterministic mask=window:10,2,sink=1 {}", dtype, bias);
      expect_right(product({text}, {""}));
      expect_same_bits("bwd " + text, runnable_targets().front(), {2});
    }
  }
}

// The second run finds in the workspace what the first one left there.
TEST(Backward, RunsInARowInOneWorkspace) {
  for (const char* text : {"bwd bf16 b=2 hq=4 hk=2 sq=200 sk=170 d=64 mask=causal",
                           "bwd bf16 b=2 hq=4 hk=2 sq=200 sk=170 d=64 mask=causal deterministic",
                           "bwd fp32 b=3 h=2 sq=70 sk=210 d=32 bias=11 dbias deterministic",
                           "bwd bf16 varlen b=5 hq=4 hk=1 sq=150 sk=170 tq=400 tk=450 d=64 sink"})
    test::expect_right(text, {runnable_targets().front(), "backward", 2, 3});
}

}  // namespace
}  // namespace regard::test
