// Few query rows against many keys: the decode kernel, split key ranges, and their merge.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "kernels/support.h"
#include "plan/stage.h"

namespace regard::test {
namespace {

[[maybe_unused]] const int strict = setenv("REGARD_STRICT", "1", 1);

const char* const features[] = {"",
                                "mask=causal",
                                "mask=window:100,0",
                                "mask=window:100,0,sink=5",
                                "ranges",
                                "bits",
                                "mask=causal bits ranges",
                                "softcap=5",
                                "softcap=2 bias=1h mask=causal",
                                "softcap=5 bias=alibi_b",
                                "bias=bh",
                                "bias=1h mask=causal",
                                "bias=b1 bias_type=fp32 mask=causal",
                                "bias=alibi_b",
                                "sink",
                                "sink mask=window:100,0",
                                "lengths mask=causal sink",
                                "scale=-0.2",
                                "scale=0"};

/// On a CPU with the decode kernel; on a GPU, which has none yet, with the plan's choice for few rows.
Path few_rows(const std::string& target = runnable_targets().front()) {
  return {target, is_gpu(target) ? "" : "decode"};
}

std::vector<Path> few_rows_on_every_target() {
  std::vector<Path> paths;
  for (const std::string& target : runnable_targets()) paths.push_back(few_rows(target));
  return paths;
}

TEST(Decode, EveryFeature) {
  for (const char* splits : {"splits=3", "splits=0"})
    for (const char* feature : features)
      expect_right(std::string("fwd bf16 lse b=2 hq=4 hk=2 sq=2 sk=700 d=64 ") + splits + " " + feature,
                   few_rows());
}

TEST(Decode, EveryTarget) {
  for (const char* dtype : {"fp32", "bf16", "fp16"})
    for (const char* rest : {"hq=4 hk=1 d=128", "hq=2 hk=2 d=59 dv=40", "hq=3 hk=1 d=80 mask=causal",
                             "hq=4 hk=1 d=13 dv=7", "hq=1 hk=1 d=256 dv=200"})
      expect_right_by_each(std::string("fwd ") + dtype + " lse sq=1 sk=333 splits=2 " + rest,
                           few_rows_on_every_target());
}

// See Forward.NanIsNotHidden.
TEST(Decode, NanIsNotHidden) {
  for (const char* rest : {"fp32 hq=4 hk=1 sq=1", "bf16 hq=2 hk=1 sq=3 mask=window:30,1",
                           "fp16 hq=4 hk=2 sq=2 mask=causal softcap=5", "fp32 hq=4 hk=1 sq=2 bits sink"})
    for (const char* splits : {"", " splits=3"})
      for (const std::int64_t key : {-1, 5, 140, 899}) {
        CaseOptions options;
        options.nan_key = key;
        if (key < 0) options.nan_row = 0;
        expect_right_by_each(std::string("fwd lse sk=900 d=64 ") + rest + splits, few_rows_on_every_target(),
                             options);
      }
}

TEST(Decode, GroupsOfQueryRows) {
  for (const char* heads : {"hq=1 sq=1", "hq=1 sq=5", "hq=2 sq=4", "hq=3 sq=3", "hq=16 sq=1", "hq=4 sq=4"})
    for (const char* dtype : {"fp32", "bf16"})
      expect_right(std::string("fwd ") + dtype + " lse b=2 hk=1 sk=300 d=64 mask=causal splits=2 " + heads,
                   few_rows());
}

/// Query rows of the target's largest block.
std::int64_t most_rows_of_block(const std::string& name) {
  const Target& target = **find_target(name);
  const AlgorithmField rows = target.on_cpu() ? &Algorithm::pack_gqa : &Algorithm::block_q;
  std::int64_t most = 0;
  for (const Target::Tile& tile : target.tiles)
    if (tile.algorithm.kernel == "cpu_decode") most = std::max(most, tile.algorithm.*rows);
  return most;
}

// More rows than a block holds: a second one starts in the middle of the rows of a query head and is not
// full.
TEST(Decode, TwoBlocksOfQueryRows) {
  for (const std::string& target : runnable_targets()) {
    if (is_gpu(target)) GTEST_SKIP() << "the blocks are those of the CPU's kernel";
    const std::int64_t rows = most_rows_of_block(target);
    for (const char* shape : {"fp32 d=7", "bf16 d=40", "fp16 d=111 dv=90"})
      for (const std::string& mask : masks)
        for (const char* lengths : {"", " lengths"})
          expect_right(fmt::format("fwd {} lse b=2 hq=6 hk=2 sq={} sk=150 splits=2 {}{}", shape, rows / 3 + 1,
                                   mask, lengths),
                       few_rows(target));
    for (const char* rest : {"", " mask=causal lengths", " bias=bh", " sink bias=alibi_b"})
      expect_right(fmt::format("fwd bf16 lse b=2 h=2 sq={} sk=300 d=64 splits=2{}", 2 * rows, rest),
                   few_rows(target));
    for (const char* rest :
         {"", " mask=causal", " lengths", " sink mask=window:20,5"})  // some end in the first
      expect_right(fmt::format("fwd bf16 lse varlen b=4 hq=4 hk=2 sq={} sk=400 tq={} tk=1000 d=64 splits=2{}",
                               rows, 2 * rows, rest),
                   few_rows(target));
  }
}

TEST(Decode, PackedSequences) {
  for (const char* rest : {"", "mask=causal", "lengths", "sink mask=causal"})
    expect_right(
        std::string("fwd bf16 lse varlen b=4 hq=4 hk=2 sq=3 sk=400 tq=9 tk=1000 d=64 splits=2 ") + rest,
        few_rows());
}

// Pairs of keys at the end of the sink tokens and at the begin of the window, which may meet.
TEST(Decode, SinksBesideAWindow) {
  for (const char* window : {"2,0,sink=1", "2,0,sink=5", "3,0,sink=3", "7,0,sink=1"})
    for (const int keys : {3, 4, 5, 9, 10})
      expect_right(fmt::format("fwd bf16 lse hq=4 hk=2 sq=1 sk={} d=64 mask=window:{}", keys, window),
                   few_rows());
}

TEST(Decode, MasksThatHideNothing) {
  const std::string best = runnable_targets().front();
  for (const Path& path : {few_rows(), Path{best, "forward"}})
    for (const char* mask : {"mask=causal", "mask=window:-1,0", "mask=window:299,0,sink=4"})
      for (const char* rest : {"", " lengths", " sink", " lengths ranges", " bits"})
        expect_right(std::string("fwd bf16 lse b=3 hq=4 hk=2 sq=1 sk=300 d=64 ") + mask + rest, path);
  for (const char* rest : {"", " lengths"})
    expect_right(std::string("fwd bf16 lse varlen b=4 h=2 sq=1 sk=400 tq=3 tk=1000 d=64 mask=causal") + rest,
                 few_rows());
  for (const char* mask : {"mask=window:-1,8", "mask=window:4,8", "mask=window:8,4,top_left"})  // sq > sk
    expect_right(std::string("fwd bf16 lse b=2 h=2 sq=9 sk=5 d=64 lengths ") + mask, {best, "forward"});
}

TEST(Decode, ExtremeLogits) {
  CaseOptions negative;
  negative.bias_offset = -30000;
  expect_right("fwd fp32 lse h=2 sq=1 sk=500 d=64 bias=bh splits=2", few_rows(), negative);
  CaseOptions huge;
  huge.q_scale = 1000;
  expect_right("fwd bf16 lse h=2 sq=1 sk=500 d=64 splits=2", few_rows(), huge);
}

// A part of the keys that no row sees has no weight; a row that sees no key at all is 0.
TEST(Parts, OfTheForwardKernel) {
  for (const char* rest : {"", "mask=causal", "mask=window:70,0,sink=3", "sink mask=window:70,0", "ranges",
                           "bits", "dropout=0.3", "bias=bh", "sink lengths"})
    for (const char* dtype : {"fp32", "bf16"})
      expect_right(std::string("fwd ") + dtype + " lse b=2 h=2 sq=150 sk=700 d=64 splits=3 " + rest,
                   {runnable_targets().front(), "forward_split"});
}

// Parts past the keys of a short sequence add nothing.
TEST(Parts, OfSequencesOfManyLengths) {
  for (const char* rest : {"", "mask=causal", "mask=window:300,0,sink=3"})
    for (const char* lengths : {"lengths b=8 sq=16 sk=1000", "varlen b=8 sq=16 sk=1000 tq=64 tk=3001"})
      expect_right(fmt::format("fwd fp16 lse hq=4 hk=2 d=64 splits=4 {} {}", lengths, rest),
                   {runnable_targets().front(), "forward_split"});
}

// With the tiles of every head dimension; on a GPU with query heads that share K and V in one block.
TEST(Parts, OfFewRowsOfManyHeads) {
  for (const char* dims : {"d=64", "d=128", "d=192 dv=128", "d=256"})
    for (const char* rest : {"hq=8 hk=2 sq=5", "hq=6 hk=2 sq=33 mask=causal sink",
                             "hq=4 hk=4 sq=64 mask=window:200,2,sink=3", "hq=80 hk=2 sq=2"})
      expect_right(fmt::format("fwd bf16 lse b=2 sk=1100 splits=3 {} {}", dims, rest),
                   {runnable_targets().front(), "forward_split"});
}

// One huge score decides a row, and is in one part.
TEST(Parts, OfExtremeScores) {
  CaseOptions huge;
  huge.q_scale = 1000;
  for (const char* dtype : {"bf16", "fp16"})
    for (const char* rest : {"", "mask=causal", "softcap=30"})
      expect_right(fmt::format("fwd {} lse hq=8 hk=2 sq=20 sk=900 d=64 splits=3 {}", dtype, rest),
                   {runnable_targets().front(), "forward_split"}, huge);
}

TEST(Parts, MoreThanThereAreKeys) {
  expect_right("fwd fp32 lse h=2 sq=150 sk=70 d=64 splits=8", {runnable_targets().front(), "forward_split"});
}

TEST(Decode, MorePartsThanThereAreKeys) {
  expect_right("fwd fp32 lse h=2 sq=1 sk=70 d=64 splits=8", few_rows());
  expect_right("fwd fp32 lse sink h=2 sq=1 sk=0 d=64 splits=8", few_rows());
}

}  // namespace
}  // namespace regard::test
