// Forward kernels against the oracle: every feature alone and in pairs, odd sizes, every target.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

#include "kernels/cpu/forward_schedule.h"
#include "kernels/support.h"
#include "plan/plan.h"

namespace regard::test {
namespace {

// A kernel that falls back to the generic one would pass its test without having run.
[[maybe_unused]] const int strict = setenv("REGARD_STRICT", "1", 1);

struct Entry {
  std::string text;
  CaseOptions options = {};
};

/// Checks every entry with the forward kernel of every given target.
void expect_right(const std::vector<Entry>& entries, const std::vector<std::string>& targets) {
  std::vector<Path> paths;
  for (const std::string& target : targets) paths.push_back({target, "forward"});
  for (const Entry& entry : entries) test::expect_right_by_each(entry.text, paths, entry.options);
}
/// On the best target of this machine.
void expect_right(const std::vector<Entry>& entries) {
  expect_right(entries, {runnable_targets().front()});
}

TEST(Forward, EveryTypeAndOddHeadDimension) {
  std::vector<Entry> entries;
  for (const char* dtype : {"fp32", "bf16", "fp16"})
    for (const char* dims : {"d=1", "d=7 dv=40", "d=59", "d=64", "d=96 dv=111", "d=128"})
      entries.push_back({std::string("fwd ") + dtype + " lse b=1 h=2 sq=70 sk=131 " + dims});
  expect_right(entries, runnable_targets());
}

TEST(Forward, LargeHeadDimensions) {
  expect_right({{"fwd bf16 lse h=1 s=130 d=192 dv=128 mask=causal"},
                {"fwd bf16 lse h=1 s=130 d=256 mask=causal"},
                {"fwd fp32 lse h=1 s=130 d=256 mask=causal"},
                {"fwd bf16 lse h=1 s=130 d=512 dv=500 mask=causal"},
                {"fwd fp32 lse h=1 sq=67 sk=200 d=511 dv=512"},
                {"fwd fp16 lse h=1 s=130 d=512 mask=causal"}});
}

// Rows whose scores rise by too much are redone. Also several blocks of work for each block of threads.
TEST(Forward, LongSequences) {
  // Enough heads to give each multiprocessor more than one block; not needed on a CPU.
  const bool on_gpu = is_gpu(runnable_targets().front());
  std::vector<Entry> entries;
  for (const char* rest :
       {on_gpu ? "bf16 lse h=34 sq=500 sk=1100 d=256" : "bf16 lse h=2 sq=500 sk=1100 d=256",
        "fp16 lse hq=4 hk=2 sq=256 sk=3000 d=256 splits=1", "bf16 lse h=2 sq=300 sk=4500 d=128 splits=1"}) {
    entries.push_back({std::string("fwd ") + rest});
    entries.back().options.q_scale = 5;
  }
  entries.push_back({"fwd bf16 lse h=2 sq=200 sk=4500 d=128 splits=1"});
  expect_right(entries);
}

// Blocks in clusters load K and V for each other, and rows that overflow in one of them are redone by both.
// Also an odd number of blocks for each head.
TEST(Forward, Clusters) {
  const std::string target = runnable_targets().front();
  if (target != "sm_90a") GTEST_SKIP() << "clusters of sm_90a";
  CaseOptions options;
  options.q_scale = 5;
  const std::pair<std::string, std::string> tiles[] = {{"d=128", "cluster=2 block_q=128"},
                                                       {"d=128", "cluster=2 block_q=192"},
                                                       {"d=192 dv=128", "cluster=2"},
                                                       {"d=256", "cluster=2"}};
  for (const auto& [dims, family] : tiles)
    for (const char* rest :
         {"bf16 h=34 sq=500 sk=1100", "fp16 hq=40 hk=20 s=1500 mask=causal",
          "bf16 h=30 sq=1300 sk=400 mask=causal", "bf16 h=30 sq=616 sk=388 mask=window:198,13,top_left",
          "fp16 h=9 s=3000 mask=window:300,5,sink=7 sink"})
      test::expect_right("fwd lse " + dims + " " + rest, {target, family}, options);
}

// If V is 0 at the keys that a row sees best, O is a sum of weights that are near 0 in the type to which
// they are rounded.
TEST(Forward, SmallWeightsAlone) {
  std::vector<Entry> entries;
  for (const char* dtype : {"fp32", "bf16", "fp16"})
    for (const char* rest : {"scale=1", "scale=3", "scale=1 mask=causal"}) {
      entries.push_back({std::string("fwd ") + dtype + " lse h=2 s=128 d=64 " + rest});
      entries.back().options.v_rectified = true;
    }
  expect_right(entries, runnable_targets());
}

// A sink leaves so little weight to the keys that O is subnormal.
TEST(Forward, SubnormalOutputs) {
  std::vector<Entry> entries;
  for (const char* dtype : {"fp32", "bf16"})
    for (const char* rest : {"sq=70", "sq=2", "sq=70 mask=causal"})
      for (double offset : {84, 88, 92}) {
        entries.push_back({std::string("fwd ") + dtype + " lse h=2 sk=90 d=64 sink " + rest});
        entries.back().options.sink_offset = offset;
      }
  expect_right(entries, runnable_targets());
}

// All weights of a row are the same number, so that its error is that of their sum.
TEST(Forward, EqualScores) {
  std::vector<Entry> entries;
  for (const char* dtype : {"fp32", "bf16", "fp16"})
    for (int sk : {1, 2, 3, 5, 6, 100, 700}) {
      entries.push_back({std::string("fwd ") + dtype + " lse h=2 sq=70 d=64 sk=" + std::to_string(sk)});
      entries.back().options.q_scale = 0;
    }
  expect_right(entries, runnable_targets());
}

// The lengths around whole tiles, with the mask that has a tail on both sides.
TEST(Forward, Tails) {
  std::vector<Entry> entries;
  for (const char* dtype : {"fp32", "bf16"})
    for (int sk : {1, 63, 64, 65, 127, 129, 191, 255, 256})
      for (const char* rest : {"sq=1", "sq=65 mask=causal", "sq=128 mask=window:30,3"})
        entries.push_back(
            {std::string("fwd ") + dtype + " lse h=2 d=64 sk=" + std::to_string(sk) + " " + rest});
  expect_right(entries);
}

TEST(Forward, EveryMaskOnEveryShape) {
  std::vector<Entry> entries;
  for (const std::string& mask : masks)
    for (const char* shape : {"sq=200 sk=200", "sq=70 sk=300", "sq=300 sk=70"})
      entries.push_back({std::string("fwd fp32 lse b=2 hq=4 hk=2 d=40 ") + mask + " " + shape});
  expect_right(entries);
}

// Blocks of rows differ with the number of threads, and with nine or more threads the last ones are cut into
// parts: no row is left out, and none depends on what shares its block.
TEST(Forward, SameBitsForAnyNumberOfThreads) {
  if (is_gpu(runnable_targets().front())) GTEST_SKIP() << "the blocks are those of a CPU's threads";
  struct Case {
    std::string text;
    bool cut;  // with nine threads
  };
  const Case cases[] = {
      {"bf16 h=4 sq=1111 sk=300 d=40", true},
      {"bf16 h=16 sq=900 sk=150 d=8", true},
      {"bf16 b=3 h=1 sq=900 sk=150 d=24 lengths", true},
      {"bf16 h=24 sq=900 sk=300 d=8 mask=window:30,5,top_left", true},  // 128, 128 and 64 rows
      {"fp32 h=9 s=1300 d=8 mask=window:300,0,sink=3", true},
      {"fp16 h=2 s=700 d=32 mask=causal", false},
      {"bf16 h=1 sq=65 sk=700 d=32 bits", false},
      {"bf16 h=2 sq=1300 sk=1500 d=24 splits=3", false},
      {"bf16 hq=24 hk=2 sq=300 sk=260 d=8 mask=window:30,5", true},
      {"bf16 b=2 hq=12 hk=2 sq=300 sk=260 d=8 mask=causal lengths", true},
      {"bf16 varlen b=3 hq=8 hk=2 sq=300 sk=150 tq=700 tk=300 d=24 sink", true},
      {"bf16 varlen b=3 h=2 sq=900 sk=150 tq=1500 tk=300 d=24 dropout=0.2 dropout_mask", true}};
  for (const Case& c : cases) {
    const std::string problem = "fwd lse " + c.text;
    const std::string family = c.text.ends_with("splits=3") ? "forward_split" : "forward";
    std::vector<std::string> targets = {runnable_targets().front()};
    if (!c.text.starts_with("fp32")) targets.push_back("cpu-amx-emulated");
    for (const std::string& target : targets) {
      const Result<Plan> made =
          plan(*parse(problem), **find_target(target), {.threads = 9, .family = family});
      ASSERT_TRUE(made) << made.error().message;
      const auto schedule = made->stages.front().schedule.as<CpuForwardSchedule>();
      const bool cut = schedule.part_rows < schedule.block_rows &&
                       made->stages.front().grid > schedule.whole_blocks * made->splits;
      EXPECT_EQ(cut, c.cut) << problem << " on " << target << ", blocks of " << schedule.block_rows;
      for (int threads : {2, 9, 16})
        expect_same_bits(problem, {target, family, 1}, {target, family, threads});
    }
    test::expect_right(problem, {runnable_targets().front(), family, 9});
  }
}

TEST(Forward, MasksOnEveryTarget) {
  std::vector<Entry> entries;
  for (const char* mask : {"mask=window:15,0,sink=3", "bits", "mask=causal bits ranges"})
    for (const char* dtype : {"fp32", "bf16"})
      entries.push_back({std::string("fwd ") + dtype + " lse b=1 h=2 d=64 sq=130 sk=200 " + mask});
  expect_right(entries, runnable_targets());
}

TEST(Forward, ScoreModifiersAloneAndWithMasks) {
  std::vector<Entry> entries;
  for (const char* modifier :
       {"softcap=5", "bias=11", "bias=1h", "bias=b1", "bias=bh", "bias=alibi", "bias=alibi_b",
        "dropout=0.3 dropout_mask", "sink", "scale=0.3", "scale=-0.2", "scale=0"})
    for (const char* mask :
         {"mask=none", "mask=causal", "mask=window:15,0,sink=3", "mask=causal bits", "ranges"})
      entries.push_back(
          {std::string("fwd bf16 lse b=2 hq=4 hk=2 sq=100 sk=210 d=64 ") + modifier + " " + mask});
  expect_right(entries);
}

TEST(Forward, ScoreModifiersOnEveryTarget) {
  std::vector<Entry> entries;
  for (const char* modifier : {"softcap=5 dropout=0.2 dropout_mask sink", "bias=bh dropout=0.5 dropout_mask",
                               "bias=alibi_b sink mask=causal", "softcap=2 bias=1h mask=causal",
                               "softcap=2 bias=b1 bias_type=fp32 mask=causal", "softcap=5 bias=alibi_b"})
    for (const char* dtype : {"fp32", "fp16"})
      entries.push_back({std::string("fwd ") + dtype + " lse b=2 h=2 sq=70 sk=140 d=64 " + modifier});
  expect_right(entries, runnable_targets());
}

// On a CPU, rows of heads that share K and V are in one tile, even if a head ends in the middle of it: each
// lane has the bias, slope, sink, bits and memory position of its own head.
TEST(Forward, RowsOfSeveralHeadsInATile) {
  std::vector<Entry> entries;
  for (const char* shape : {"b=2 hq=6 hk=2 sq=17 sk=300 d=64", "hq=5 hk=1 sq=70 sk=131 dv=40 d=59",
                            "hq=4 hk=1 sq=3 sk=260 d=128", "hq=8 hk=4 sq=450 sk=270 d=32"})
    for (const char* rest :
         {"fp32 bias=bh", "fp32 softcap=3 bias=bh", "bf16 bias=11 mask=causal",
          "bf16 bias=bh bias_type=fp32 mask=causal", "bf16 bias=alibi mask=causal",
          "fp16 bias=alibi_b layout=sbhd", "fp32 bits sink layout=bshd", "bf16 ranges bits splits=2 sink",
          "bf16 splits=3 mask=window:40,3,sink=2", "fp32 lengths mask=causal sink"})
      entries.push_back({std::string("fwd lse ") + shape + " " + rest});
  for (const char* rest : {"bf16 mask=causal bias=alibi sink", "fp32 lengths mask=window:20,0,sink=4"})
    entries.push_back({std::string("fwd lse varlen b=5 hq=6 hk=2 sq=150 sk=170 tq=400 tk=450 d=64 ") + rest});
  entries.push_back({"fwd lse fp32 hq=5 hk=1 sq=21 sk=260 d=512 mask=window:40,0,sink=3 sink"});
  expect_right(entries, runnable_targets());
}

// Squares of a bf16 bias are read two keys per word, as far as rows go. The gaps between rows are NaN.
TEST(Forward, BiasRowsOfEveryLength) {
  std::vector<Entry> entries;
  for (const char* rest :
       {"sk=47", "sk=48", "sk=49", "sk=63 hk=1", "sk=337 mask=window:20,0", "sk=300 mask=window:9,0 hk=1"})
    for (const char* type : {"", " bias_type=fp32"}) {
      entries.push_back({std::string("fwd bf16 lse hq=3 sq=70 d=40 bias=11 ") + rest + type});
      entries.back().options.padded_rows = true;
    }
  expect_right(entries, runnable_targets());
}

TEST(Forward, PackedSequences) {
  std::vector<Entry> entries;
  for (const char* rest :
       {"", "mask=causal", "lengths", "lengths mask=causal", "lengths mask=window:20,0,sink=4", "ranges",
        "sink", "lengths bias=alibi", "softcap=3 mask=causal_top_left", "dropout=0.2 dropout_mask"})
    entries.push_back(
        {std::string("fwd bf16 lse varlen b=5 hq=4 hk=2 sq=150 sk=170 tq=400 tk=450 d=64 ") + rest});
  expect_right(entries);
}

TEST(Forward, DenseWithLengths) {
  std::vector<Entry> entries;
  for (const char* rest :
       {"", "mask=causal", "mask=window:20,7,sink=2", "bits", "bias=bh", "sink mask=causal"})
    for (bool only_k : {false, true}) {
      Entry entry{std::string("fwd fp32 lse lengths b=4 h=2 sq=90 sk=130 d=32 ") + rest};
      entry.options.only_lengths_k = only_k;
      entries.push_back(entry);
    }
  expect_right(entries);
}

// On a GPU, query heads that share K and V are then in one block.
TEST(Forward, FewRowsOfManyHeads) {
  std::vector<Entry> entries;
  for (const char* heads : {"hq=8 hk=2", "hq=12 hk=1", "hq=6 hk=3", "hq=80 hk=2"})
    for (const char* rows : {"sq=1", "sq=5", "sq=16", "sq=33 sink", "sq=64"})
      for (const char* rest : {"d=64", "d=128 mask=causal", "d=128 mask=window:70,2,sink=3"})
        entries.push_back({std::string("fwd bf16 lse b=2 sk=300 ") + heads + " " + rows + " " + rest});
  expect_right(entries);
}

TEST(Forward, NoKeysAndNoRows) {
  expect_right({{"fwd fp32 lse b=2 h=2 sq=70 sk=0 d=32"},
                {"fwd fp32 lse sink b=2 h=2 sq=70 sk=0 d=32"},
                {"fwd bf16 lse b=2 h=2 sq=0 sk=70 d=32"},
                {"fwd bf16 lse b=2 h=2 sq=200 sk=3 d=32 mask=causal"},
                {"fwd bf16 lse sink b=2 h=2 sq=200 sk=3 d=32 mask=causal"}});
}

// True -infinity: rows whose logits are all hugely negative, and rows that one huge logit decides.
TEST(Forward, ExtremeLogits) {
  std::vector<Entry> entries;
  for (const char* rest : {"fwd fp32 lse h=2 sq=70 sk=200 d=64 bias=bh",
                           "fwd bf16 lse h=2 sq=70 sk=200 d=64 bias=bh mask=causal",
                           "fwd fp32 lse h=2 sq=70 sk=200 d=64 bias=bh bits sink"}) {
    entries.push_back({rest});
    entries.back().options.bias_offset = -30000;
  }
  for (const char* rest :
       {"fwd fp32 lse h=2 sq=70 sk=200 d=64", "fwd bf16 lse h=2 sq=70 sk=200 d=64",
        "fwd bf16 lse h=2 sq=70 sk=200 d=64 mask=causal", "fwd bf16 lse h=2 sq=70 sk=200 d=64 softcap=30"}) {
    entries.push_back({rest});
    entries.back().options.q_scale = 1000;
  }
  // Scores that rise by more than the softmax allows in some steps of the keys and not in others.
  for (const char* rest : {"fwd fp32 lse h=2 sq=70 sk=900 d=64", "fwd bf16 lse h=2 sq=70 sk=900 d=64",
                           "fwd bf16 lse h=2 sq=70 sk=900 d=24 bits"}) {
    entries.push_back({rest});
    entries.back().options.q_scale = 5;
  }
  entries.push_back({"fwd fp32 lse h=2 sq=70 sk=200 d=64 sink"});
  entries.back().options.sink_offset = 50;
  expect_right(entries, runnable_targets());
}

// Padding by an additive bias, as frameworks do it: whole steps of keys, and whole rows, at the bottom of
// the range. A row that is padded throughout is treated like any other.
TEST(Forward, PaddingByBias) {
  std::vector<Entry> entries;
  for (const double padding : {-1e10, -1e30, -3.4028234e38}) {
    for (const char* rest :
         {"fwd fp32 lse sq=70 sk=450 d=64 bias=11", "fwd bf16 lse sq=70 sk=450 d=64 bias=11 sink",
          "fwd fp32 lse hq=4 hk=1 sq=1 sk=450 d=64 bias=1h",
          "fwd fp32 lse hq=4 hk=1 sq=1 sk=2450 d=64 bias=1h sink splits=2"}) {
      entries.push_back({rest});
      entries.back().options.padding = padding;
      entries.back().options.padded_keys = 400;
    }
  }
  expect_right(entries, runnable_targets());
}

// Scores so large that one ulp is more than an exponent can hold.
TEST(Forward, ScoresBeyondTheirOwnPrecision) {
  std::vector<Entry> entries;
  for (const char* scale : {" scale=1e7", " scale=1e9", " scale=1e12"})
    for (const char* rest :
         {"fwd fp32 lse h=1 sq=64 sk=512 d=64", "fwd bf16 lse h=1 sq=64 sk=512 d=64 mask=causal",
          "fwd bf16 lse hq=4 hk=1 sq=1 sk=500 d=64"})
      entries.push_back({std::string(rest) + scale});
  expect_right(entries, runnable_targets());
}

// Everything computed from a NaN is NaN, including LSE, and other rows are right: a maximum ignores NaN, and
// therefore cannot tell whether a row has seen a key.
TEST(Forward, NanIsNotHidden) {
  std::vector<Entry> entries;
  const auto add = [&](const std::string& rest, std::int64_t row, std::int64_t key) {
    entries.push_back({"fwd lse " + rest});
    entries.back().options.nan_row = row;
    entries.back().options.nan_key = key;
  };
  for (const char* rest :
       {"fp32 h=2 sq=200 sk=300 d=64", "bf16 h=2 sq=200 sk=300 d=64 mask=causal",
        "bf16 h=2 sq=200 sk=300 d=128 mask=window:40,5", "fp16 h=2 sq=200 sk=300 d=64 softcap=5 ranges",
        "bf16 h=2 sq=200 sk=300 d=64 bits sink",
        "bf16 varlen b=3 h=2 s=150 tq=400 tk=400 d=64 mask=causal"}) {
    for (const std::int64_t row : {0, 77}) add(rest, row, -1);
    for (const std::int64_t key : {130, 290}) add(rest, -1, key);
  }
  for (const char* rest :
       {"bf16 hq=4 hk=1 sq=1 sk=900 d=64", "bf16 hq=4 hk=1 sq=1 sk=900 d=64 mask=window:30,0 splits=1",
        "fp32 hq=4 hk=1 sq=2 sk=900 d=64 mask=window:30,0 splits=3",
        "fp32 hq=4 hk=1 sq=2 sk=900 d=64 mask=window:30,0 splits=3 sink"}) {
    add(rest, 0, -1);
    for (const std::int64_t key : {130, 890}) add(rest, -1, key);  // the latter in the last step of the keys
  }
  expect_right(entries, runnable_targets());
}

// Whether the short polynomial can be used is decided for many scores at once. (Heads are narrow, as rows of
// wide ones affect each other in how weights are computed.)
TEST(Forward, SoftCapOfARowTakesNoNoticeOfItsNeighbours) {
  for (const std::string& target : runnable_targets())
    for (const char* dtype : {"bf16", "fp32"}) {
      const std::string text = fmt::format("fwd {} lse h=1 sq=64 sk=96 d=16 softcap=5", dtype);
      Case alone(text), beside(text);
      constexpr std::int64_t d = 16, large = 5;  // this row's scores come near the cap
      for (std::int64_t i = 0; i < d; ++i)
        beside.set(REGARD_Q, large * d + i, 8 * alone.get(REGARD_Q, large * d + i));
      ASSERT_EQ(run(alone, {target, "forward"}), "");
      ASSERT_EQ(run(beside, {target, "forward"}), "");
      for (std::int64_t row = 0; row < 64; ++row) {
        if (row == large) continue;
        EXPECT_EQ(alone.get(REGARD_LSE, row), beside.get(REGARD_LSE, row))
            << dtype << " on " << target << " " << row;
        for (std::int64_t i = row * d; i < (row + 1) * d; ++i)
          ASSERT_EQ(alone.get(REGARD_O, i), beside.get(REGARD_O, i)) << dtype << " on " << target << " " << i;
      }
    }
}

// Rows of a tile affect each other in how weights are computed: with batch_invariant a sequence has the same
// tiles next to one of any length.
TEST(Forward, BatchInvariantBits) {
  const std::string target = runnable_targets().front();
  constexpr std::int64_t rows = 17, keys = 500, longer = 700;
  for (const char* cap : {"", " softcap=9"}) {
    const auto text = [&](std::int64_t b, std::int64_t longest, std::int64_t tq, std::int64_t tk) {
      return fmt::format(
          "fwd bf16 batch_invariant varlen b={} hq=8 hk=2 sq={} sk={} tq={} tk={} d=64 scale=1{}", b, longest,
          std::max(longest, keys), tq, tk, cap);
    };
    Case alone(text(1, rows, rows, keys)), beside(text(2, longer, rows + longer, keys + longer));
    for (Case* c : {&alone, &beside}) {
      c->set(REGARD_OFFSETS_Q, 1, rows);
      c->set(REGARD_OFFSETS_K, 1, keys);
    }
    beside.set(REGARD_OFFSETS_Q, 2, rows + longer);
    beside.set(REGARD_OFFSETS_K, 2, keys + longer);
    // Tokens are consecutive; the scores of one head in four rise all the time.
    for (Case* c : {&alone, &beside})
      for (const regard_role role : {REGARD_Q, REGARD_K, REGARD_V}) {
        const std::int64_t of_token = role == REGARD_Q ? 8 * 64 : 2 * 64;
        for (std::int64_t i = 0; i < c->count(role); ++i) {
          const double token = static_cast<double>(i / of_token),
                       wave = std::sin(static_cast<double>(1 + 7 * i));
          const double rising = role == REGARD_K                      ? token / 100
                                : role == REGARD_Q && i / 64 % 4 == 3 ? 0.2
                                                                      : 0;
          c->set(role, i, 0.2 * wave + rising);
        }
      }
    ASSERT_EQ(run(alone, {target, "forward"}), "");
    ASSERT_EQ(run(beside, {target, "forward"}), "");
    for (std::int64_t i = 0; i < alone.count(REGARD_O); ++i)
      ASSERT_EQ(alone.get(REGARD_O, i), beside.get(REGARD_O, i)) << "element " << i << cap;
  }
}

TEST(Forward, LayoutsAndPaddedRows) {
  std::vector<Entry> entries;
  for (const char* layout : {"layout=bshd", "layout=bhsd", "layout=sbhd"})
    for (const char* rest : {"fp32 d=40 mask=causal", "bf16 d=59", "bf16 d=64 bias=1h bits"}) {
      Entry entry{std::string("fwd lse b=2 hq=4 hk=1 sq=70 sk=140 ") + layout + " " + rest};
      entry.options.padded_rows = true;
      entry.options.broadcast = true;
      entries.push_back(entry);
    }
  expect_right(entries);
}

// No array of sq x sk numbers anywhere: that would be 16 GiB here.
TEST(Forward, MemoryIsLinearInTheSequence) {
  Case c("fwd bf16 lse h=1 s=65536 d=32 mask=window:200,0,sink=4");
  regard_problem* problem = nullptr;
  regard_plan* plan = nullptr;
  ASSERT_EQ(regard_problem_parse(print(c.problem()).c_str(), &problem), REGARD_OK);
  regard_plan_options options = REGARD_PLAN_OPTIONS_INIT;
  options.threads = 2;
  ASSERT_EQ(regard_plan_create(problem, &options, &plan), REGARD_OK) << regard_status_message();
  EXPECT_LT(regard_plan_workspace_bytes(plan), std::int64_t{4} << 20);
  regard_plan_destroy(plan);
  regard_problem_destroy(problem);

  ASSERT_EQ(run(c, {"", "forward"}), "");
  oracle::Options sample;
  sample.threads = 2;
  sample.max_rows = 64;
  const auto expected = oracle::run(c.problem(), c.arguments(), sample);
  ASSERT_TRUE(expected) << expected.error().message;
  for (const oracle::Comparison& output : oracle::compare(c.problem(), c.arguments(), *expected)) {
    EXPECT_TRUE(output.ok) << role_name(output.role);
    EXPECT_GE(output.compared, 64);
  }
}

}  // namespace
}  // namespace regard::test
