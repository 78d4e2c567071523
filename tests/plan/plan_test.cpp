// The plan that a problem gets, and the text of a refusal.
#include "plan/plan.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <queue>
#include <set>

#include "kernels/backward_schedule.h"
#include "kernels/cpu/backward_schedule.h"
#include "kernels/cpu/forward_schedule.h"
#include "kernels/portable/forward_schedule.h"
#include "kernels/sm90/forward_schedule.h"
#include "plan/plan_parts.h"
#include "plan/recipe.h"
#include "problem/tensors.h"

namespace regard {
namespace {

using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;

const Target& target(std::string_view name) {
  const Result<const Target*> found = find_target(name);
  if (!found) throw std::runtime_error(found.error().message);
  return **found;
}

Problem problem(std::string_view text) {
  const Result<Problem> parsed = parse(text);
  if (!parsed) throw std::runtime_error(parsed.error().message);
  return *parsed;
}

std::string stages(const Plan& plan) {
  std::string text;
  for (const Stage& stage : plan.stages) text += (text.empty() ? "" : " + ") + stage.key.algorithm.kernel;
  return text;
}

std::string planned(std::string_view text, PlanOptions options = {}, std::string_view on = "cpu-avx512bf16") {
  const Result<Plan> result = plan(problem(text), target(on), options);
  return result ? stages(*result) : result.error().message;
}

TEST(Plan, TakesTheKernelThatFits) {
  struct Case {
    std::string_view text, stages;
    int threads;
  };
  const Case cases[] = {
      {"fwd bf16 b=2 h=16 s=1024 d=128 mask=causal", "cpu_forward", 2},
      {"fwd fp32 b=1 h=1 s=64 d=64", "cpu_forward", 8},
      {"fwd bf16 b=1 hq=32 hk=8 sq=1 sk=16384 d=128", "cpu_decode + cpu_combine", 8},
      {"fwd bf16 b=8 hq=32 hk=8 sq=1 sk=256 d=128", "cpu_decode", 2},
      {"fwd bf16 b=1 h=1 sq=64 sk=65536 d=128", "cpu_forward + cpu_combine", 8},
      {"fwd bf16 b=1 hq=32 hk=8 sq=1 sk=16384 d=128 splits=1", "cpu_forward", 8},
      {"fwd bf16 b=1 hq=32 hk=8 sq=1 sk=16384 d=128 dropout=0.1", "cpu_forward + cpu_combine", 64},
      {"fwd fp8 b=1 h=4 s=256 d=64", "cpu_generic_forward", 2},
      {"fwd bf16 b=1 h=4 s=256 d=576 dv=512", "cpu_forward", 2},
      {"bwd bf16 b=1 h=4 s=256 d=64", "cpu_backward_delta + cpu_backward", 2},
      {"bwd bf16 b=1 h=4 s=256 d=64 sink", "cpu_backward_delta + cpu_backward + cpu_backward_convert", 2},
      {"bwd fp32 b=1 h=4 s=256 d=576 dv=512", "cpu_generic_backward", 2},
  };
  for (const Case& c : cases) EXPECT_EQ(planned(c.text, {.threads = c.threads}), c.stages) << c.text;
}

TEST(Plan, AMaskThatHidesNothingCostsNothing) {
  struct Case {
    std::string_view words;
    Mask mask;  // of the kernel that is used
  };
  const Case cases[] = {
      {"sq=1 sk=700 mask=causal", Mask::none},
      {"sq=1 sk=700 mask=causal lengths", Mask::none},
      {"sq=1 sk=700 mask=causal varlen tq=2 tk=900", Mask::none},
      {"sq=1 sk=0 mask=causal", Mask::none},
      {"sq=1 sk=700 mask=causal ranges", Mask::window},
      {"sq=2 sk=700 mask=causal", Mask::window},
      {"sq=1 sk=700 mask=causal_top_left", Mask::window},
      {"sq=1 sk=700 mask=window:-1,0", Mask::none},
      {"sq=1 sk=700 mask=window:699,0,sink=4", Mask::none},
      {"sq=1 sk=700 mask=window:698,0", Mask::window},
      {"sq=9 sk=700 mask=window:699,8", Mask::none},
      {"sq=9 sk=700 mask=window:699,7", Mask::window},
      {"sq=9 sk=700 mask=window:8,699,top_left", Mask::none},
      {"sq=9 sk=700 mask=window:7,699,top_left", Mask::window},
      {"sq=9 sk=700 mask=window:8,698,top_left", Mask::window},
  };
  for (const Case& c : cases) {
    const std::string text = "fwd bf16 b=2 h=2 d=64 " + std::string(c.words);
    const Result<Plan> result = plan(problem(text), target("cpu-avx512bf16"), {});
    ASSERT_TRUE(result) << text << result.error().message;
    EXPECT_EQ(result->stages[0].key.signature.mask, c.mask) << text;
  }
}

TEST(Plan, EveryValidProblemHasAPlanOnEveryCpuTargetWithKernels) {
  for (std::string_view on : {"cpu-generic", "cpu-avx2", "cpu-avx512", "cpu-avx512bf16"}) {
    for (std::string_view text : {"fwd fp8_e5m2 b=2 hq=4 hk=2 s=100 d=40 descale=head out=fp16 varlen lse",
                                  "fwd fp16 b=2 h=4 s=7 d=1 dv=512 bits ranges",
                                  "bwd bf16 b=2 h=4 s=33 d=64 bias=11 dbias sink dropout=0.1",
                                  "bwd fp16 b=1 hq=6 hk=2 s=33 d=512 softcap=30"}) {
      EXPECT_TRUE(plan(problem(text), target(on), {.threads = 2})) << on << ": " << text;
    }
  }
}

TEST(Plan, NoCudaTargetTakesFnuzTypesAndEveryAmdTargetDoes) {
  for (const Target& target : *targets())
    for (std::string_view dtype : {"fp8_fnuz", "fp8_e5m2_fnuz"}) {
      if (target.name == "cpu-amx-emulated") continue;
      const Result<Plan> planned =
          plan(problem(fmt::format("fwd {} b=1 h=4 s=300 d=128", dtype)), target, {});
      EXPECT_EQ(planned.has_value(), target.kind != TargetKind::cuda) << target.name << " " << dtype;
    }
}

TEST(Plan, AForcedFamilyIsUsedAndAnUnknownOneIsAnErrorWithTheNearest) {
  const std::string_view text = "fwd bf16 b=2 h=16 s=1024 d=128";
  EXPECT_EQ(planned(text, {.family = "generic"}), "cpu_generic_forward");
  EXPECT_EQ(planned(text, {.family = "forward"}), "cpu_forward");
  EXPECT_EQ(planned(text, {.family = "cpu_forward"}), "cpu_forward");
  EXPECT_EQ(planned(text, {.family = "generic_forward"}), "cpu_generic_forward");
  EXPECT_EQ(planned(text, {.disabled = {"forward"}}), "cpu_generic_forward");
  EXPECT_THAT(planned(text, {.family = "forwrd"}),
              HasSubstr("unknown family or kernel 'forwrd'; did you mean 'forward'?"));
  EXPECT_THAT(planned(text, {.disabled = {"generik"}}), HasSubstr("did you mean 'generic'?"));
  EXPECT_THAT(planned(text, {.family = "forward clutser=2"}),
              HasSubstr("unknown word 'clutser=2' of a kernel; did you mean 'cluster'?"));
  EXPECT_THAT(planned(text, {.family = "cluster=two"}), HasSubstr("'cluster=two' needs a whole number"));
  EXPECT_THAT(planned(text, {.family = "forward cluster"}),
              HasSubstr("'cluster' needs a whole number, e.g. cluster=64"));
  EXPECT_THAT(planned(text, {.family = "FORWARD"}), HasSubstr("did you mean 'forward'?"));
}

TEST(Plan, ATileIsForcedByItsNumbers) {
  using Tile = std::pair<std::int64_t, std::int64_t>;  // query rows, blocks of a cluster
  const auto tile_of = [](const PlanOptions& options) -> Tile {
    const Result<Plan> result =
        plan(problem("fwd bf16 b=4 h=16 s=4096 d=128 mask=causal"), target("sm_90a"), options);
    EXPECT_TRUE(result) << result.error().message;
    const Algorithm& algorithm = result->stages[0].key.algorithm;
    return {algorithm.block_q, algorithm.cluster};
  };
  EXPECT_EQ(tile_of({}), Tile(128, 2));
  EXPECT_EQ(tile_of({.family = "block_q=192"}).first, 192);
  EXPECT_EQ(tile_of({.family = "sm90_forward block_q=192 cluster=2"}), Tile(192, 2));
  EXPECT_EQ(tile_of({.family = "sm90_forward cluster=0"}), Tile(128, 0));
  EXPECT_EQ(tile_of({.disabled = {"cluster=2 block_q=128", "block_q=192"}}), Tile(128, 0));
}

TEST(Plan, OnHopperFewRowsOfManyHeadsShareABlock) {
  struct Case {
    std::string_view shape;
    std::int64_t heads, blocks;  // heads whose rows have room in a block (0: not packed), and the grid
    std::int64_t block_q = 128;
  };
  for (const Case& c :
       {Case{"hq=32 hk=8 sq=16", 4, 8, 64}, Case{"hq=32 hk=8 sq=1", 4, 8, 64}, Case{"hq=32 hk=8 sq=17", 4, 8},
        Case{"hq=32 hk=8 sq=33", 2, 16}, Case{"hq=60 hk=1 sq=1", 64, 1, 64}, Case{"hq=80 hk=1 sq=1", 128, 1},
        Case{"hq=80 hk=1 sq=3", 32, 3}, Case{"hq=32 hk=8 sq=65", 0, 32}, Case{"hq=8 hk=8 sq=16", 0, 8},
        Case{"hq=32 hk=8 sq=16 lengths", 4, 8, 64}, Case{"hq=32 hk=8 sq=16 tq=16 tk=512 varlen", 4, 8, 64},
        Case{"hq=32 hk=8 sq=16 lengths batch_invariant", 4, 8}}) {
    const Result<Plan> result = plan(problem("fwd bf16 b=1 sk=512 d=128 " + std::string(c.shape)),
                                     target("sm_90a"), {.family = "sm90_forward"});
    ASSERT_TRUE(result) << c.shape << ": " << result.error().message;
    const i32 row_bits = result->stages[0].schedule.as<Sm90ForwardSchedule>().row_bits;
    EXPECT_EQ(1 << row_bits, c.heads > 0 ? c.block_q / c.heads : 1) << c.shape;
    EXPECT_EQ(result->stages[0].key.algorithm.pack_gqa, c.heads > 0) << c.shape;
    EXPECT_EQ(result->stages[0].key.algorithm.block_q, c.block_q) << c.shape;
    EXPECT_EQ(result->stages[0].grid, c.blocks) << c.shape;
  }
}

// Splits follow the cost of the blocks and the merge; there are none if all multiprocessors have work. The
// first cases follow times measured on an H200 (docs/hopper.md).
TEST(Plan, DecodeReadsKeysOnceForAllHeadsThatShareThem) {
  for (std::string_view on : {"cpu-neon", "cpu-neon-bf16"}) {
    for (std::string_view dtype : {"fp32", "bf16"}) {
      for (int heads : {1, 4, 8, 16}) {
        const Result<Plan> result =
            plan(problem(fmt::format("fwd {} b=1 hq={} hk=1 sq=1 sk=16384 d=128", dtype, heads)), target(on),
                 {.threads = 2});
        ASSERT_TRUE(result) << result.error().message;
        const KernelKey& key = result->stages[0].key;
        EXPECT_EQ(key.algorithm.kernel, "cpu_decode") << on << dtype << heads;
        EXPECT_EQ(key.algorithm.pack_gqa, heads) << on << dtype;
      }
    }
  }
}

TEST(Plan, OnHopperKeysAreSplitWhereMultiprocessorsWouldIdle) {
  struct Case {
    std::string_view shape;
    std::int64_t splits;
    bool packed;  // heads that share K and V
  };
  for (const Case& c : {
           Case{"b=8 hq=32 hk=8 sq=16 sk=8192", 2, true},
           Case{"b=20 hq=32 hk=8 sq=4 sk=8192", 4, true},  // otherwise the second round would be a fifth full
           Case{"b=1 hq=32 hk=8 sq=1 sk=512", 1, true}, Case{"b=1 hq=32 hk=8 sq=1 sk=1024", 8, true},
           Case{"b=1 hq=32 hk=8 sq=1 sk=2048", 11, true}, Case{"b=1 hq=32 hk=8 sq=1 sk=4096", 16, true},
           Case{"b=1 hq=32 hk=8 sq=1 sk=16384", 16, true}, Case{"b=2 hq=32 hk=8 sq=1 sk=16384", 8, true},
           Case{"b=4 hq=32 hk=8 sq=1 sk=8192", 4, true}, Case{"b=1 hq=32 hk=8 sq=1 sk=65536", 16, true},
           Case{"b=4 hq=32 hk=8 sq=16 sk=8192 mask=causal", 4, true},
           Case{"b=8 hq=32 hk=8 sq=16 sk=2048 mask=causal", 1, true},
           Case{"b=32 hq=32 hk=8 sq=16 sk=4096", 1, true}, Case{"b=1 h=32 sq=1 sk=4096", 4, false},
           Case{"b=1 h=5 s=4096", 1, false},
           // Other cases, as the cost model decides.
           Case{"b=1 hq=32 hk=8 sq=1 sk=900", 5, true}, Case{"b=1 h=8 sq=64 sk=4096", 11, false},
           Case{"b=1 h=32 sq=1 sk=16384", 4, false}, Case{"b=1 h=5 s=4096 mask=causal", 1, false},
           Case{"b=1 h=16 s=1024", 1, false}, Case{"b=1 h=16 s=512", 1, false},
           Case{"b=4 hq=32 hk=8 sq=16 sk=8192 lengths", 4, true},
           Case{"b=8 hq=32 hk=8 sq=128 sk=8192", 1, false},
           Case{"b=1 hq=32 hk=8 sq=16 sk=65536 mask=window:1024,0", 1, true},  // most parts would be empty
           Case{"b=8 hq=32 hk=8 sq=16 sk=8192 splits=1", 1, true},
           Case{"b=8 hq=32 hk=8 sq=16 sk=8192 splits=5", 5, true},
           Case{"b=8 hq=32 hk=8 sq=16 sk=8192 batch_invariant", 2, true},
           Case{"b=1 h=1 sq=64 sk=100 splits=3", 1, false},  // a single tile cannot be split
       }) {
    const Result<Plan> result =
        plan(problem("fwd bf16 d=128 " + std::string(c.shape)), target("sm_90a"), {.family = "sm90_forward"});
    ASSERT_TRUE(result) << c.shape << ": " << result.error().message;
    const Algorithm& algorithm = result->stages[0].key.algorithm;
    EXPECT_EQ(result->splits, c.splits) << c.shape;
    EXPECT_EQ(algorithm.pack_gqa, c.packed) << c.shape;
    EXPECT_EQ(algorithm.split, c.splits > 1) << c.shape;
    EXPECT_EQ(stages(*result), c.splits > 1 ? "sm90_forward + portable_combine" : "sm90_forward") << c.shape;
  }
}

TEST(Plan, OnHopperTheTileFollowsTheLength) {
  struct Case {
    std::string_view text;
    std::int64_t block_q, block_k, cluster = 0;
  };
  // The tiles that are faster on an H200 (docs/hopper.md).
  for (const Case& c : {
           Case{"fwd bf16 b=16 h=16 s=1024 d=64", 192, 128},
           Case{"fwd bf16 b=4 h=16 s=4096 d=64", 192, 128},
           Case{"fwd bf16 b=16 h=16 s=1024 d=64 mask=causal", 128, 128},
           Case{"fwd bf16 b=4 h=16 s=4096 d=64 mask=causal", 192, 128},
           Case{"fwd bf16 b=1 h=16 s=16384 d=64 mask=causal", 192, 128},
           Case{"fwd bf16 b=32 h=8 s=512 d=128", 128, 128},
           Case{"fwd bf16 b=16 h=16 s=1024 d=128", 128, 128},
           Case{"fwd bf16 b=4 h=16 s=4096 d=128", 192, 80, 2},
           Case{"fwd bf16 b=1 h=16 s=16384 d=128", 192, 80, 2},
           Case{"fwd bf16 b=1 h=16 s=16384 d=128 lengths", 192, 80},
           Case{"fwd bf16 b=16 h=8 s=1024 d=128 mask=causal", 128, 128},
           Case{"fwd bf16 b=8 h=16 s=2048 d=128 mask=causal", 128, 128},
           Case{"fwd bf16 b=4 h=16 s=4096 d=128 mask=causal", 128, 128, 2},
           Case{"fwd bf16 b=1 h=16 s=16384 d=128 mask=causal", 192, 80, 2},
           Case{"fwd bf16 b=4 h=16 s=4096 d=192 dv=128 mask=causal", 128, 128, 2},
           Case{"fwd bf16 b=1 h=8 s=16384 d=128 mask=window:256,0", 128, 128},
           Case{"fwd fp8 b=16 h=8 s=1024 d=128 mask=causal", 128, 128},
           Case{"fwd fp8 b=4 h=16 s=4096 d=128 mask=causal", 192, 96},
           Case{"fwd fp8 b=32 h=8 s=512 d=128", 128, 128},
           Case{"fwd fp8 b=4 h=16 s=4096 d=128", 192, 96},
           Case{"fwd bf16 b=1 h=16 s=16384 d=128 mask=window:-1,-1", 192, 80, 2},
           Case{"fwd fp8 b=4 h=32 s=4096 d=64", 192, 128},
           Case{"fwd fp8 b=16 h=32 s=1024 d=64 mask=causal", 128, 128},
           Case{"fwd bf16 b=4 h=8 s=4096 d=256", 128, 80, 2},
           Case{"fwd bf16 b=4 h=8 s=4096 d=256 mask=window:4096,4096", 128, 80, 2},
           Case{"fwd bf16 b=4 h=8 s=4096 d=256 lengths", 128, 80},
           Case{"fwd bf16 b=16 h=8 s=1024 d=256", 128, 80},
           Case{"fwd bf16 b=32 h=8 s=512 d=256 mask=causal", 128, 80},
           Case{"fwd bf16 b=8 h=8 s=2048 d=256 mask=causal", 128, 80, 2},
           Case{"fwd bf16 b=2 h=8 s=8192 d=256 mask=causal", 128, 80, 2},
           Case{"fwd bf16 b=1 h=8 s=16384 d=256 mask=window:1024,0", 128, 80},
           Case{"fwd bf16 b=1 h=1 s=64 d=64", 128, 128},
           Case{"fwd bf16 b=1 h=70 sq=190 sk=300 d=64", 192, 128},
           Case{"fwd bf16 b=2 h=35 sq=190 sk=170 d=128", 192, 80},
           Case{"fwd fp8 b=2 h=100 sq=190 sk=200 d=128 mask=causal", 192, 96},
           Case{"fwd bf16 b=4 h=16 s=4096 d=64 batch_invariant", 128, 128},
       }) {
    const Result<Plan> result = plan(problem(c.text), target("sm_90a"), {});
    ASSERT_TRUE(result) << c.text << ": " << result.error().message;
    const Algorithm& algorithm = result->stages[0].key.algorithm;
    EXPECT_EQ(algorithm.kernel, "sm90_forward") << c.text;
    EXPECT_EQ(algorithm.block_q, c.block_q) << c.text;
    EXPECT_EQ(algorithm.block_k, c.block_k) << c.text;
    EXPECT_EQ(algorithm.cluster, c.cluster) << c.text;
    if (c.cluster == 0) continue;
    // Clusters step through equal pieces of work, and take pieces of different sizes from a counter.
    const bool counts = result->workspace.bytes_of("counter") > 0;
    EXPECT_EQ(counts, c.text.find("mask=causal") != std::string_view::npos) << c.text;
    EXPECT_EQ(result->stages[0].grid % c.cluster, 0) << c.text;
  }
}

/// How many heads the portable forward works on at a time.
std::int64_t heads_side_by_side(std::string_view on, std::string_view shape) {
  const Result<Plan> result = plan(problem("fwd bf16 b=2 d=128 mask=causal " + std::string(shape)),
                                   target(on), {.family = "forward"});
  if (!result) throw std::runtime_error(result.error().message);
  return result->stages[0].schedule.as<PortableForwardSchedule>().side_by_side;
}

TEST(Plan, HeadsWhoseKeysFitACacheTogetherAreWorkedOnSideBySide) {
  EXPECT_EQ(heads_side_by_side("sm_80", "hq=32 hk=8 s=4096"), 32);
  EXPECT_EQ(heads_side_by_side("sm_80", "h=16 s=4096"), 8);
  EXPECT_EQ(heads_side_by_side("sm_80", "h=4 s=64"), 8);
  EXPECT_EQ(heads_side_by_side("sm_80", "hq=32 hk=8 s=65536"), 4);
  EXPECT_EQ(heads_side_by_side("sm_80", "h=4 sq=64 sk=0"), 8);
}

/// How much longer than the mean the multiprocessor with the most work is busy in a causal backward on
/// Hopper, if each takes the next block as soon as it is free. A block's time is its tiles, and two more for
/// its keys.
double longest_over_mean(std::string_view shape) {
  const Problem p = problem("bwd bf16 mask=causal " + std::string(shape));
  const Target& hopper = target("sm_90a");
  const Result<Plan> result = plan(p, hopper, {.family = "sm90_backward"});
  if (!result) throw std::runtime_error(result.error().message);
  const Stage& main = result->stages[1];
  const auto schedule = main.schedule.as<GpuBackwardSchedule>();
  const std::int64_t block_q = main.key.algorithm.block_q, block_k = main.key.algorithm.block_k;
  const std::int64_t key_blocks = ceil_divide(p.sk, block_k), heads = main.grid / key_blocks;
  std::priority_queue<std::int64_t, std::vector<std::int64_t>, std::greater<>> free_at;
  for (std::int64_t i = 0; i < hopper.units; ++i) free_at.push(0);
  std::int64_t total = 0, longest = 0;
  for (std::int64_t block = 0; block < main.grid; ++block) {
    const std::int64_t first = block / (schedule.side_by_side * key_blocks) * schedule.side_by_side;
    const std::int64_t here = std::min<std::int64_t>(schedule.side_by_side, heads - first);
    const std::int64_t key_block = (block - first * key_blocks) / here;
    const std::int64_t tiles = ceil_divide(p.sq, block_q) - key_block * block_k / block_q;
    const std::int64_t took = tiles * schedule.part_heads + 2;
    const std::int64_t end = free_at.top() + took;
    free_at.pop();
    free_at.push(end);
    total += took;
    longest = std::max(longest, end);
  }
  return static_cast<double>(longest) * static_cast<double>(hopper.units) / static_cast<double>(total);
}

TEST(Plan, BlocksOfCausalBackwardHaveTheQueryHeadsThatTheCacheHolds) {
  const struct {
    std::string_view text;
    std::int64_t heads;
  } cases[] = {{"hq=64 hk=8 s=2048 d=128 mask=causal", 8},
               {"hq=64 hk=8 s=4096 d=128 mask=causal", 4},
               {"hq=64 hk=8 s=8192 d=128 mask=causal", 2},
               {"hq=64 hk=8 s=65536 d=128 mask=causal", 1},
               {"hq=64 hk=8 s=8192 d=128", 8},
               {"hq=64 hk=8 s=8192 d=128 bits", 8},
               {"hq=64 hk=8 s=8192 d=128 ranges", 8},
               {"hq=64 hk=8 s=8192 d=128 mask=window:1024,0", 8},
               {"hq=64 hk=8 s=8192 d=128 mask=causal deterministic", 8},
               {"hq=40 hk=8 s=8192 d=128 mask=causal", 2},
               {"h=8 s=8192 d=128 mask=causal", 1}};
  for (const auto& c : cases)
    for (const std::string_view family : {"sm90_backward", "portable_backward"}) {
      const Problem p = problem("bwd bf16 b=4 " + std::string(c.text));
      const Result<Plan> made = plan(p, target("sm_90a"), {.family = std::string(family)});
      ASSERT_TRUE(made) << made.error().message;
      EXPECT_EQ(made->stages[1].schedule.as<GpuBackwardSchedule>().part_heads, c.heads) << c.text;
    }
}

TEST(Plan, NoMultiprocessorIsBusyMuchLongerThanOthersInCausalBackward) {
  for (const std::string_view shape :
       {"b=1 h=16 s=16384 d=128", "b=2 h=16 s=8192 d=128", "b=2 hq=32 hk=8 s=8192 d=128",
        "b=2 hq=64 hk=8 s=8192 d=128", "b=1 hq=64 hk=8 s=4096 d=128", "b=1 hq=64 hk=8 s=16384 d=128",
        "b=3 hq=40 hk=5 s=8192 d=64"})
    EXPECT_LT(longest_over_mean(shape), 1.03) << shape;
  EXPECT_LT(longest_over_mean("b=1 hq=40 hk=5 s=8192 d=128"), 1.12) << "2.4 blocks each, of 8 query heads";
}

/// Each of eight dies has a cache of its own and an eighth of the heads, a multiple of those side by side.
TEST(Plan, OnADieAsManyHeadsAreWorkedOnSideBySideAsFitItsCache) {
  EXPECT_EQ(heads_side_by_side("gfx942", "hq=32 hk=8 s=4096"), 4);
  EXPECT_EQ(heads_side_by_side("gfx942", "h=32 s=128"), 8);
  EXPECT_EQ(heads_side_by_side("gfx942", "h=36 s=700"), 3);
  EXPECT_EQ(heads_side_by_side("gfx942", "h=5 s=64"), 10);
  EXPECT_EQ(heads_side_by_side("gfx942", "hq=32 hk=8 s=65536"), 1);
}

TEST(Plan, HeadsOfOneRowAreTreatedAsRowsOfOneHead) {
  struct Case {
    std::string_view shape;
    std::int64_t heads, grid;
  };
  for (const Case& c : {
           Case{"hq=32 hk=8 sq=1 sk=500", 4, 16},
           Case{"hq=32 hk=8 sq=1 sk=500 lengths mask=causal", 4, 16},
           Case{"hq=200 hk=1 sq=1 sk=500", 200, 8},
           Case{"hq=32 hk=8 sq=2 sk=500", 1, 64},
           // Features that differ between rows or depend on the head.
           Case{"hq=32 hk=8 sq=1 sk=500 mask=window:20,0", 1, 64},
           Case{"hq=32 hk=8 sq=1 sk=500 sink", 1, 64},
           Case{"hq=32 hk=8 sq=1 sk=500 bias=alibi", 1, 64},
           Case{"hq=32 hk=8 sq=1 sk=500 dropout=0.1", 1, 64},
           Case{"hq=32 hk=8 sq=1 sk=500 batch_invariant", 4, 16},
           Case{"hq=32 hk=8 sq=1 sk=500 tq=2 tk=900 varlen", 1, 64},
       }) {
    const Result<Plan> result = plan(problem("fwd bf16 lse b=2 d=256 " + std::string(c.shape)),
                                     target("sm_80"), {.family = "forward"});
    ASSERT_TRUE(result) << c.shape << ": " << result.error().message;
    EXPECT_EQ(result->stages[0].schedule.as<PortableForwardSchedule>().pack_gqa, c.heads) << c.shape;
    EXPECT_EQ(result->stages[0].grid, c.grid) << c.shape;
    EXPECT_EQ(result->problem.sq, c.shape.find("sq=2") == c.shape.npos ? 1 : 2) << c.shape;
  }
}

TEST(Plan, FewBlocksOfHeadsAsRowsSplitTheKeys) {
  const auto splits = [](std::string_view text, std::string_view on) {
    const Result<Plan> result = plan(problem(text), target(on), {.family = "portable_forward"});
    return result ? result->splits : 0;
  };
  EXPECT_GT(splits("fwd bf16 lse b=1 hq=128 hk=1 sq=1 sk=32768 d=128", "sm_80"), 1);
  EXPECT_GT(splits("fwd bf16 lse b=4 hq=32 hk=8 sq=1 sk=8192 d=128", "sm_80"), 1);
  EXPECT_GT(splits("fwd fp32 lse b=5 hq=32 hk=8 sq=1 sk=8192 d=128", "sm_90a"), 1);
  EXPECT_EQ(splits("fwd bf16 lse b=64 hq=32 hk=8 sq=1 sk=8192 d=128", "sm_80"), 1);
}

/// Parts let all blocks run at once. A bound of the lengths, which may be far above them, adds one at most.
TEST(Plan, DecodeSplitsKeysByTheNumberOfBlocks) {
  const auto splits = [](std::string_view words) {
    const Result<Plan> result =
        plan(problem("fwd bf16 hq=32 hk=8 d=128 " + std::string(words)), target("sm_90a"), {});
    return result && result->stages[0].kernel->name == "portable_decode" ? result->splits : 0;
  };
  EXPECT_EQ(splits("b=1 sq=1 sk=32768"), 32);
  EXPECT_EQ(splits("b=1 sq=1 sk=1000"), 3);
  EXPECT_EQ(splits("b=8 sq=2 sk=4096 paged=16 lengths"), 4);
  EXPECT_EQ(splits("b=64 sq=1 sk=4096 lengths"), 1);
  EXPECT_EQ(splits("b=64 sq=1 sk=131072 lengths"), 2);
  EXPECT_EQ(splits("b=64 sq=1 sk=131072"), 1);
  EXPECT_EQ(splits("b=40 sq=1 sk=4096"), 4) << "320 blocks would leave most of a second round idle";
}

TEST(Plan, FewRowsTakeTheTileOfFewRows) {
  const auto block_q = [](std::string_view rows, std::string_view on) {
    const Result<Plan> result = plan(problem("fwd bf16 b=8 hq=32 hk=8 sk=8192 d=128 " + std::string(rows)),
                                     target(on), {.family = "portable_forward"});
    return result ? result->stages[0].key.algorithm.block_q : 0;
  };
  for (std::string_view on : {"sm_80", "sm_90", "sm_90a"}) {
    EXPECT_EQ(block_q("sq=16", on), 64) << on;  // even where both tiles are limited by loading K and V
    EXPECT_EQ(block_q("sq=1024", on), 128) << on;
  }
}

TEST(Plan, PairsGoInSmallGroupsAndALargeLastOne) {
  struct Case {
    std::string_view text;
    std::int64_t side_by_side, before_last;
  };
  constexpr std::int64_t all = INT32_MAX;
  for (const Case& c : {
           // Half a round of 132 blocks if memory is the limit, else a round; the last four rounds together.
           Case{"fwd bf16 b=32 h=16 s=512 d=128 mask=causal", 16, 384},
           Case{"fwd bf16 b=8 h=16 s=2048 d=128 mask=causal", 8, 96},
           // As many as have K and V of at most 32 MB together.
           Case{"fwd bf16 b=1 h=16 s=16384 d=128 mask=causal", 1, 12},
           Case{"fwd bf16 b=4 hq=32 hk=8 s=4096 d=128 mask=causal", 4, 112},
           Case{"fwd bf16 b=1 h=2 s=512 d=64 mask=causal", 2, 0},
           // Packed heads.
           Case{"fwd bf16 b=4 hq=32 hk=8 sq=16 sk=4096 d=128 mask=causal", 16, 16},
           // The group before the last is whole.
           Case{"fwd bf16 b=1 h=39 sq=1024 sk=6000 d=128 mask=causal", 10, 30},
           // All pieces of work have the same size, or sequences have different lengths.
           Case{"fwd bf16 b=4 hq=32 hk=8 s=4096 d=128", 4, all},
           Case{"fwd bf16 b=4 h=8 s=4096 d=128 lengths mask=causal", 8, all},
       }) {
    const Result<Plan> result = plan(problem(c.text), target("sm_90a"), {.family = "forward"});
    ASSERT_TRUE(result) << c.text << ": " << result.error().message;
    EXPECT_EQ(result->stages[0].key.algorithm.kernel, "sm90_forward") << c.text;
    const auto schedule = result->stages[0].schedule.as<Sm90ForwardSchedule>();
    EXPECT_EQ(schedule.side_by_side, c.side_by_side) << c.text;
    EXPECT_EQ(schedule.before_last, c.before_last) << c.text;
  }
}

// A refusal names what the requested kernels do not support, not features without any kernel on the target or
// kernels that were not requested.
TEST(Plan, ARefusalReportsTheTileThatGotFarthest) {
  const auto refusal = [](std::string_view text, PlanOptions options) {
    const Result<Plan> result = plan(problem(text), target("sm_90a"), options);
    return result ? std::string() : result.error().message;
  };
  EXPECT_THAT(
      refusal("fwd bf16 b=1 hq=8 hk=1 sq=4 sk=900 d=128", {.family = "sm90_forward block_q=192"}),
      HasSubstr("on sm_90a: sm90_forward: its tile of 192 queries is for problems without few query rows of "
                "many heads; use a smaller one"));
  EXPECT_EQ(
      refusal("fwd bf16 b=1 h=8 sq=128 sk=900 d=128", {.family = "sm90_forward cluster=2"}),
      "no plan for 'fwd bf16 b=1 h=8 sq=128 sk=900 d=128' on sm_90a: sm90_forward: its clusters need keys "
      "and "
      "query rows for two blocks; use a tile without clusters; sm90_forward + portable_combine: the blocks "
      "of its clusters "
      "load K and V for each other, so sequences must fill their tensors and keys stay whole; use a tile "
      "without clusters");
  EXPECT_EQ(refusal("fwd bf16 b=1 hq=8 hk=1 sq=12 sk=900 d=256 softcap=3", {.family = "sm90_forward"}), "");
  EXPECT_EQ(refusal("fwd bf16 b=1 hq=8 hk=1 sq=4 sk=900 d=256 softcap=3", {.family = "sm90_forward"}), "");
  // Head dims: the widest tile counts, and there is no advice that cannot be followed.
  EXPECT_THAT(
      refusal("fwd bf16 b=1 h=8 s=900 d=576 dv=512", {}),
      HasSubstr(
          "portable_forward: its tile for head dim 576 has V in the columns of K; give latent, and no V"));
  EXPECT_EQ(refusal("fwd bf16 b=1 h=8 s=900 d=576 dv=512 latent", {}), "");
  EXPECT_THAT(refusal("fwd fp32 b=1 h=8 s=900 d=576 dv=512 latent", {}),
              EndsWith("forward: head dims 576/512 are above its 512/512; no kernel takes them yet"));
  EXPECT_THAT(refusal("fwd bf16 b=1 h=8 s=900 d=512", {.family = "sm90_forward"}),
              HasSubstr("head dims 512/512 are above its 256/256; a wider kernel takes them"));
  // Types: those of all tiles of a pipeline are listed.
  EXPECT_THAT(refusal("fwd fp32 b=1 h=8 s=900 d=64", {.family = "sm90_forward"}),
              HasSubstr("it does not take fp32; it takes fp16, bf16, fp8, fp8_e5m2"));
  // Kernels that are switched off are reported as well.
  EXPECT_THAT(
      refusal("fwd bf16 b=1 h=8 s=900 d=64 bias=bh", {.disabled = {"portable_forward"}}),
      AllOf(HasSubstr("sm90_forward: it does not support an elementwise bias; portable_forward does"),
            EndsWith("portable_forward: 'portable_forward' is disabled; remove it from REGARD_DISABLE")));
  EXPECT_THAT(refusal("fwd bf16 b=1 h=8 s=900 d=64", {.family = "block_q=77"}),
              EndsWith("on sm_90a: only 'block_q=77' was asked for, and it does not match that; `regard "
                       "explain` lists the kernels for it"));
}

TEST(Plan, FewRowsTakeALargerTileWhereThatOneIsAskedFor) {
  const std::string_view text = "fwd bf16 b=1 hq=8 hk=1 sq=4 sk=900 d=128";
  for (const PlanOptions& options : {PlanOptions{.family = "sm90_forward block_q=128"},
                                     PlanOptions{.family = "sm90_forward", .disabled = {"block_q=64"}}}) {
    const Result<Plan> result = plan(problem(text), target("sm_90a"), options);
    ASSERT_TRUE(result) << result.error().message;
    EXPECT_EQ(result->stages[0].key.algorithm.block_q, 128);
    EXPECT_EQ(result->stages[0].key.algorithm.pack_gqa, 1);
  }
}

TEST(Plan, StrictRefusesTheGenericKernelAndSaysWhyTheOthersDid) {
  const std::string_view text = "fwd fp8 b=1 h=4 s=256 d=64";
  EXPECT_THAT(planned(text, {.strict = true}), HasSubstr("REGARD_STRICT forbids the slower generic kernel"));
  EXPECT_THAT(planned(text, {.strict = true}), HasSubstr("it does not take fp8; it takes fp32, bf16, fp16"));
  EXPECT_EQ(planned(text, {.family = "generic", .strict = true}), "cpu_generic_forward");
  EXPECT_EQ(planned("fwd bf16 b=1 h=4 s=256 d=64", {.strict = true}), "cpu_forward");
}

/// As for one of a folder of targets, or of tomorrow.
TEST(Plan, AnswersForATargetWithoutKernelsWithASentence) {
  const Result<std::vector<Target>>& all = targets();
  ASSERT_TRUE(all) << all.error().message;
  for (Target one : *all) {
    EXPECT_TRUE(has_kernels(one)) << one.name;
    if (one.on_cpu()) continue;
    one.tiles.clear();
    EXPECT_FALSE(has_kernels(one)) << one.name;
    const bool bf16 = one.name != "sm_75";
    const std::string type = bf16 ? "bf16" : "fp16";
    for (const std::string pass : {"fwd", "bwd"}) {
      const std::string text = pass + " " + type + " b=2 h=4 s=1024 d=128 mask=causal";
      const Result<Plan> result = plan(problem(text), one, {});
      ASSERT_FALSE(result) << one.name;
      EXPECT_EQ(result.error().kind, ErrorKind::refused);
      const std::string who = std::string(word(one.kind)) + " target " + one.name;
      EXPECT_THAT(result.error().message, HasSubstr(who)) << text;
      EXPECT_THAT(result.error().message, HasSubstr("has no kernel for " + pass + " yet; cpu-amx has one"));
    }
  }
}

TEST(Plan, APlanOfAGpuCountsItsMultiprocessorsAndHasNoScratch) {
  Explanation explanation;
  const Result<Plan> found =
      plan(problem("fwd bf16 b=1 hq=32 hk=8 sq=1 sk=65536 d=128"), target("sm_80"), {}, &explanation);
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(found->workers, target("sm_80").units);
  EXPECT_EQ(stages(*found), "portable_decode + portable_combine");
  for (const Stage& stage : found->stages) EXPECT_EQ(stage.scratch_bytes, 0);
  EXPECT_THAT(to_text(explanation), HasSubstr("108 multiprocessors"));
}

TEST(Plan, AnExplanationGroupsWhatOneRuleRefused) {
  const Problem p = problem("fwd bf16 b=2 h=4 s=1024 d=128");
  Explanation explanation;
  ASSERT_TRUE(plan(p, target("sm_90a"), {}, &explanation));
  const auto lines = [](const std::string& text) { return std::count(text.begin(), text.end(), '\n'); };
  const auto all = lines(to_text(explanation, /*all=*/true));
  EXPECT_GE(all, std::ssize(explanation.verdicts));
  EXPECT_LT(lines(to_text(explanation)), all * 2 / 3);
  EXPECT_THAT(to_text(explanation),
              testing::ContainsRegex("refused  [0-9]+ of sm90_forward: .*\\[smallest_tile\\]"));
}

TEST(Plan, ExplanationHasAVerdictForEveryCandidate) {
  const Problem p = problem("fwd bf16 b=1 hq=32 hk=8 sq=1 sk=16384 d=128");
  Explanation explanation;
  ASSERT_TRUE(plan(p, target("cpu-avx512bf16"), {.threads = 2}, &explanation));
  EXPECT_EQ(explanation.verdicts.size(), candidates(p.pass, target("cpu-avx512bf16")).size());
  int chosen = 0;
  for (const Verdict& verdict : explanation.verdicts) {
    chosen += verdict.chosen;
    EXPECT_EQ(verdict.accepted, verdict.rule.empty()) << verdict.candidate;
    EXPECT_FALSE(verdict.reason.empty()) << verdict.candidate;
  }
  EXPECT_EQ(chosen, 1);
  EXPECT_THAT(to_json(explanation), HasSubstr("\"chosen\":true"));
}

TEST(Plan, AnExplanationAsJsonReadsBack) {
  for (const char* text :
       {"fwd bf16 b=1 hq=32 hk=8 sq=1 sk=16384 d=128 lse", "bwd fp32 h=2 s=300 d=72 mask=causal",
        "fwd fp16 b=2 h=4 s=1024 d=64 mask=window:8,0,sink=4 softcap=30 scale=0.3 dropout=0.1",
        "fwd bf16 b=2 hq=8 hk=2 sq=64 sk=1024 d=128 paged=16 varlen", "fwd fp32 h=1 s=64 d=512"}) {
    for (std::string_view on : {"cpu-avx512bf16", "sm_90a", "sm_80", "gfx942"}) {
      SCOPED_TRACE(std::string(on) + ": " + text);
      Explanation made;
      const Result<Plan> result = plan(problem(text), target(on), {.threads = 3}, &made);
      const nlohmann::json read = nlohmann::json::parse(to_json(made));
      EXPECT_EQ(problem(read.at("problem").get<std::string>()), problem(text));
      EXPECT_EQ(read.at("target"), on);
      ASSERT_EQ(read.at("verdicts").size(), made.verdicts.size());
      for (std::size_t i = 0; i < made.verdicts.size(); ++i) {
        const nlohmann::json& verdict = read.at("verdicts").at(i);
        EXPECT_EQ(verdict.at("candidate"), made.verdicts[i].candidate);
        EXPECT_EQ(verdict.at("accepted"), made.verdicts[i].accepted);
        EXPECT_EQ(verdict.at("chosen"), made.verdicts[i].chosen);
        EXPECT_EQ(verdict.at("rule"), made.verdicts[i].rule);
        EXPECT_EQ(verdict.at("reason"), made.verdicts[i].reason);
      }
      EXPECT_EQ(read.value("refusal", ""), result ? "" : result.error().message);
      ASSERT_EQ(read.contains("plan"), made.plan.has_value());
      if (!made.plan) continue;
      const nlohmann::json& of_plan = read.at("plan");
      EXPECT_EQ(problem(of_plan.at("problem").get<std::string>()), made.plan->problem);
      EXPECT_EQ(of_plan.at("target"), made.plan->target->name);
      EXPECT_EQ(of_plan.at("family"), word(made.plan->family));
      EXPECT_EQ(of_plan.at("splits"), made.plan->splits);
      EXPECT_EQ(of_plan.at("split_keys"), made.plan->split_keys);
      EXPECT_EQ(of_plan.at("workspace_bytes"), made.plan->workspace.total);
      EXPECT_EQ(of_plan.at("cost_seconds").get<double>(), made.plan->cost_seconds);
      ASSERT_EQ(of_plan.at("stages").size(), made.plan->stages.size());
      for (std::size_t i = 0; i < made.plan->stages.size(); ++i) {
        const nlohmann::json& stage = of_plan.at("stages").at(i);
        const Stage& expected = made.plan->stages[i];
        const Result<KernelKey> kernel = parse_kernel_key(stage.at("kernel").get<std::string>());
        ASSERT_TRUE(kernel) << kernel.error().message;
        EXPECT_EQ(*kernel, expected.key);
        EXPECT_EQ(stage.at("grid"), expected.grid);
        EXPECT_EQ(stage.at("scratch_bytes"), expected.scratch_bytes);
        EXPECT_EQ(stage.at("shared_bytes"), expected.shared_bytes);
      }
    }
  }
}

TEST(Plan, SizesThatLeave64BitsAreRefused) {
  EXPECT_THAT(planned("bwd bf16 b=32600000 h=1 sq=2147418112 sk=64 d=16", {.family = "backward"}),
              HasSubstr("64-bit"));
}

TEST(Plan, GridsThatLeave64BitsAreRefused) {
  const std::string_view varlen = "varlen b=1000000000000 h=1 sq=2000000000 sk=64 tq=2000000000 tk=64 d=1";
  for (const char* pass : {"fwd fp32 ", "bwd fp32 "}) {
    const std::string text = pass + std::string(varlen);
    EXPECT_THAT(planned(text, {.family = "generic"}), HasSubstr(too_many_blocks)) << text;
  }
}

TEST(Plan, BackwardWithoutRowsHasNoWorkspaceAndNoBlocks) {
  for (const char* shape : {"h=1000000000", "b=1000000000 hq=8 hk=2", "b=5 h=1000000 varlen"}) {
    const std::string text = "bwd fp32 " + std::string(shape) + " sq=0 sk=0 d=64";
    const Result<Plan> result = plan(problem(text), target("cpu-avx2"), {.family = "backward"});
    ASSERT_TRUE(result) << result.error().message;
    const std::int64_t scratch = result->workspace.bytes_of("scratch");
    EXPECT_LE(result->workspace.total, scratch + 64) << text;
    for (const Stage& stage : result->stages) EXPECT_EQ(stage.grid, 0) << text;
  }
}

TEST(Plan, WithoutKeysNoBlockRoundsAnImageOfTheBiasGradient) {
  for (const char* bias : {"11", "1h", "b1", "bh"}) {
    const std::string text = "bwd bf16 b=2 h=2 sq=64 sk=0 d=64 dbias bias=" + std::string(bias);
    const Result<Plan> result = plan(problem(text), target("cpu-avx2"), {.family = "backward"});
    ASSERT_TRUE(result) << result.error().message;
    EXPECT_EQ(result->workspace.bytes_of("grad_bias_partial"), 0) << text;
    EXPECT_EQ(result->stages.back().key.algorithm.kernel, "cpu_backward") << text;
  }
}

TEST(Plan, ForcedSplitsAreTaken) {
  const Result<Plan> result = plan(problem("fwd bf16 b=1 h=2 s=4096 d=64 splits=4"), target("cpu-avx2"), {});
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(stages(*result), "cpu_forward + cpu_combine");
  EXPECT_EQ(result->splits, 4);
}

TEST(Plan, BatchInvariantPlansDoNotLookAtTheBatch) {
  for (const char* rest : {"hq=8 hk=2 sq=1 sk=20000 d=64", "h=4 s=512 d=64", "h=1 sq=300 sk=90000 d=64"}) {
    std::string first;
    for (int batch : {1, 3, 64}) {
      const std::string text = "fwd bf16 batch_invariant b=" + std::to_string(batch) + " " + rest;
      const Result<Plan> result = plan(problem(text), target("cpu-avx512"), {.threads = 16});
      ASSERT_TRUE(result) << result.error().message;
      const std::string what = stages(*result) + " " + std::to_string(result->split_keys);
      if (first.empty()) first = what;
      EXPECT_EQ(what, first) << text;
    }
  }
  // Which rows share a tile must not depend on the longest sequence.
  for (const char* longest : {"sq=40", "sq=4000"}) {
    const std::string text =
        std::string("fwd bf16 batch_invariant varlen b=3 hq=8 hk=2 tq=5000 tk=9000 sk=3000 d=64 ");
    const Result<Plan> made = plan(problem(text + longest), target("cpu-avx512"), {.threads = 2});
    ASSERT_TRUE(made) << made.error().message;
    EXPECT_EQ(made->stages[0].schedule.as<CpuForwardSchedule>().pack_gqa, 4) << longest;
  }
}

// Neither the batch nor the lengths nor pages decide which kernel a GPU takes, its tile, and where it cuts
// keys.
TEST(Plan, BatchInvariantPlansOfGpus) {
  struct Case {
    std::string_view signature, pages;
  };
  for (const char* on : {"sm_75", "sm_80", "sm_90a", "sm_120", "gfx942", "gfx1100"})
    for (const Case& c : {Case{"d=64", " paged=7"}, Case{"d=128 mask=causal sink", " paged=1"},
                          Case{"d=256 mask=window:500,0", " paged=16"},
                          Case{"d=80 mask=causal softcap=20 bias=alibi", " paged=3"}}) {
      const bool hopper = std::string_view(on) == "sm_90a";
      std::set<std::pair<std::string, std::int64_t>> found;
      for (const char* shape : {"b=1 sq=1 sk=20000", "b=1 sq=1 sk=4200", "b=64 sq=1 sk=100000 lengths",
                                "b=2 sq=3000 sk=5000", "b=3 sq=20 sk=8192 tq=30 varlen lengths"}) {
        for (const std::string_view pages : {std::string_view(), c.pages}) {
          if (pages.empty() && std::string_view(shape).find("varlen") != std::string_view::npos) continue;
          if (hopper && !pages.empty() && c.pages != " paged=16") continue;  // threads would copy their rows
          const std::string text =
              fmt::format("fwd fp16 batch_invariant hq=8 hk=2 {} {}{}", c.signature, shape, pages);
          const Result<Plan> made = plan(problem(text), target(on), {});
          ASSERT_TRUE(made) << text << ": " << made.error().message;
          KernelKey key = made->stages[0].key;
          key.signature = {};
          key.algorithm.pack_gqa = key.algorithm.gather = 0;
          found.emplace(print(key), made->split_keys);
          EXPECT_EQ(made->splits, ceil_divide(made->problem.sk, made->split_keys)) << text;
        }
      }
      EXPECT_EQ(found.size(), 1) << c.signature << " on " << on << ": " << testing::PrintToString(found);
      EXPECT_EQ(found.begin()->first.find("sm90_forward") != std::string::npos, hopper) << c.signature;
    }
}

// Up to that many keys are whole, but a learned sink is added by the merge, as in calls of more keys.
TEST(Plan, BatchInvariantPartsOfFewKeys) {
  const auto stages_of = [](const char* words) {
    return planned(fmt::format("fwd bf16 batch_invariant b=2 h=4 sq=1 d=128 {}", words),
                   {.family = "portable_forward"}, "sm_80");
  };
  EXPECT_EQ(stages_of("sk=4096"), "portable_forward");
  EXPECT_EQ(stages_of("sk=4097"), "portable_forward + portable_combine");
  EXPECT_EQ(stages_of("sk=4096 sink"), "portable_forward + portable_combine");
  EXPECT_EQ(stages_of("sk=40960 splits=1 sink"), "portable_forward");
  EXPECT_EQ(stages_of("sk=40960 dropout=0.5 dropout_mask"), "portable_forward");
}

TEST(Plan, WorkspacePartsFollowEachOtherAtMultiplesOf64) {
  const Result<Plan> result =
      plan(problem("bwd bf16 b=2 h=3 s=100 d=40 bias=1h dbias"), target("cpu-avx512bf16"), {.threads = 3});
  ASSERT_TRUE(result) << result.error().message;
  const WorkspaceLayout& workspace = result->workspace;
  std::int64_t end = 0;
  for (const WorkspaceLayout::Part& part : workspace.parts) {
    EXPECT_GT(part.bytes, 0) << part.name;
    EXPECT_EQ(part.offset % 64, 0) << part.name;
    EXPECT_GE(part.offset, end) << part.name;
    end = part.offset + part.bytes;
  }
  EXPECT_GE(workspace.total, end);
  const auto bytes = [&](std::string_view part) { return workspace.bytes_of(part); };
  EXPECT_EQ(bytes("delta"), 2 * 3 * 100 * 4);
  EXPECT_EQ(bytes("grad_q_sum"), 2 * 3 * 100 * 48 * 4);
  EXPECT_EQ(bytes("progress"), 2 * 3 * 64);
  EXPECT_EQ(bytes("grad_bias_partial"), 3 * 100 * 100 * 4);
  EXPECT_EQ(bytes("partial_o"), 0);
  EXPECT_EQ(bytes("scratch") % 3, 0);
}

TEST(Plan, BackwardOfFewLongHeadsCutsTheQueries) {
  struct Case {
    std::string_view text;
    std::int64_t parts, heads;  // query heads per part
  };
  const Case cases[] = {{"bwd bf16 h=2 s=4095 d=64", 1, 1},
                        {"bwd bf16 h=2 s=4096 d=64", 2, 1},
                        {"bwd bf16 h=2 s=8192 d=128", 4, 1},
                        {"bwd bf16 h=2 s=16384 d=128", 2, 1},  // more parts would take more than 64 MiB
                        {"bwd bf16 h=2 s=65536 d=128", 2, 1},
                        {"bwd bf16 h=16 s=2048 d=64", 1, 1},
                        {"bwd bf16 b=2 h=8 sq=4096 sk=77 d=64", 1, 1},
                        {"bwd bf16 b=2 hq=16 hk=4 s=4096 d=64", 2, 2},
                        {"bwd bf16 b=3 hq=12 hk=3 s=4096 d=64", 1, 4},  // nine heads of K and V are enough
                        {"bwd bf16 hq=32 hk=8 s=1024 d=64", 4, 1},
                        {"bwd bf16 hq=64 hk=8 s=512 d=64", 4, 2},  // 1024 rows
                        {"bwd bf16 hq=16 hk=2 s=2048 d=64", 8, 1},
                        {"bwd bf16 hq=5 hk=1 s=4096 d=64", 15, 1},  // heads first, then rows
                        {"bwd bf16 hq=64 hk=1 s=64 d=64", 4, 16},
                        {"bwd bf16 hq=32 hk=8 s=16384 d=64 mask=window:1024,0", 1, 4},  // 64 MiB each
                        {"bwd bf16 hq=32 hk=2 s=4096 d=64 mask=window:512,0", 8, 2},
                        {"bwd bf16 h=1 s=16384 d=64 mask=causal", 8, 1},
                        {"bwd bf16 h=1 s=16384 d=64 mask=window:128,0", 1, 1},
                        {"bwd bf16 h=1 s=16384 d=64 mask=window:4000,0", 2, 1},
                        {"bwd bf16 h=1 s=16384 d=64 ranges", 1, 1},
                        {"bwd bf16 hq=4 hk=1 s=16384 d=64 bits", 1, 4},
                        {"bwd bf16 h=1 s=16384 d=64 bias=1h dbias", 1, 1}};
  for (const Case& c : cases) {
    for (int threads : {1, 2, 3, 16}) {
      const Result<Plan> made = plan(problem(c.text), target("cpu-avx512bf16"), {.threads = threads});
      ASSERT_TRUE(made) << made.error().message;
      const bool apart = c.parts > 1 && threads > 2;
      for (const Stage& stage : made->stages) {
        const auto schedule = stage.schedule.as<CpuBackwardSchedule>();
        EXPECT_EQ(schedule.query_parts, c.parts) << c.text;
        EXPECT_EQ(schedule.part_heads, c.heads) << c.text;
        EXPECT_EQ(schedule.parts_apart, apart ? 1 : 0) << c.text;
      }
      EXPECT_EQ(stages(*made), "cpu_backward_delta + cpu_backward");
      const std::int64_t sums =
          made->workspace.bytes_of("grad_k_partial") + made->workspace.bytes_of("grad_v_partial");
      const Problem& p = made->problem;
      EXPECT_EQ(sums, apart ? c.parts * p.b * p.hk * p.sk * 2 * p.d * 4 : 0) << c.text;
      EXPECT_TRUE(c.parts <= 2 || sums <= std::int64_t{64} << 20) << c.text;
    }
  }
}

// There is one fp32 dQ, whatever the number of threads.
TEST(Plan, BackwardWorkspaceGrowsWithTheRowsOnly) {
  const auto bytes = [](const std::string& text, int threads) {
    const Result<Plan> result = plan(problem(text), target("cpu-avx512bf16"), {.threads = threads});
    EXPECT_TRUE(result) << result.error().message;
    const auto scratch = result->workspace.bytes_of("scratch");
    return result->workspace.total - scratch;
  };
  const std::int64_t one = bytes("bwd bf16 b=1 h=16 s=8192 d=64", 1);
  EXPECT_LE(one, 16 * (8192 * (64 + 1) * 4 + 8192));
  for (int threads : {2, 16, 128}) {
    EXPECT_EQ(bytes("bwd bf16 b=1 h=16 s=8192 d=64", threads), one);
    EXPECT_EQ(bytes("bwd bf16 b=1 h=16 s=8192 d=64 deterministic", threads), one);
    EXPECT_LE(bytes("bwd bf16 b=1 h=16 s=16384 d=64", threads), 2 * one);
    EXPECT_LE(bytes("bwd bf16 b=1 h=16 s=131072 d=64", threads), 16 * one);
    // Longer rows also keep their earlier sums.
    EXPECT_LE(bytes("bwd bf16 b=1 h=16 s=262144 d=64", threads), 2 * 32 * one);
  }
}

// Memory for parts of long sums is reserved only if a sum is long.
TEST(Plan, MemoryOfLongSums) {
  const auto bytes = [](const std::string& text, std::string_view part) {
    const Result<Plan> result = plan(problem(text), target("cpu-avx2"), {});
    EXPECT_TRUE(result) << result.error().message;
    return result->workspace.bytes_of(part);
  };
  EXPECT_EQ(bytes("fwd bf16 h=1 sq=64 sk=32768 d=64 splits=1", "scratch"),
            bytes("fwd bf16 h=1 sq=64 sk=4096 d=64 splits=1", "scratch"));
  EXPECT_GT(bytes("fwd bf16 h=1 sq=64 sk=33000 d=64 splits=1", "scratch"),
            bytes("fwd bf16 h=1 sq=64 sk=32768 d=64 splits=1", "scratch"));
  EXPECT_EQ(bytes("bwd bf16 h=1 sq=64 sk=131072 d=64", "grad_q_earlier"), 0);
  EXPECT_EQ(bytes("bwd bf16 h=1 sq=64 sk=132000 d=64", "grad_q_earlier"), 64 * 64 * 4);
  EXPECT_EQ(bytes("bwd bf16 h=1 s=132000 d=64 mask=window:512,0", "grad_q_earlier"), 0);
  EXPECT_EQ(bytes("bwd bf16 b=64 h=16 sq=4 sk=8 d=64 bias=11 dbias", "grad_bias_lost"), 0);
  EXPECT_EQ(bytes("bwd bf16 b=65 h=16 sq=4 sk=8 d=64 bias=11 dbias", "grad_bias_lost"), 4 * 8 * 4);
  EXPECT_EQ(bytes("bwd bf16 b=2000 h=16 sq=4 sk=8 d=64 bias=bh dbias", "grad_bias_lost"), 0);
}

// On a GPU long rows are split so that sums in registers cover at most 2^16 keys, as far as memory allows.
TEST(Plan, LongRowsOnGpu) {
  struct Case {
    std::string_view text, target;
    std::int64_t splits;
  };
  for (const Case& c : {Case{"fwd bf16 b=64 h=16 sq=128 sk=65536 d=128", "sm_90a", 1},
                        {"fwd bf16 b=8 h=16 sq=512 sk=131072 d=128", "sm_90a", 2},
                        {"fwd bf16 b=1 h=16 sq=1024 sk=1048576 d=128 mask=causal", "sm_90a", 16},
                        {"fwd bf16 b=8 h=16 sq=512 sk=131072 d=128", "sm_80", 2},
                        {"fwd fp32 b=8 h=16 sq=512 sk=65536 d=128", "sm_80", 8},
                        {"fwd fp32 b=8 h=16 sq=512 sk=8192 d=128", "sm_80", 1},
                        {"fwd fp8 b=8 h=16 sq=512 sk=65536 d=128", "sm_90a", 4},
                        {"fwd bf16 b=8 h=16 sq=512 sk=131072 d=128 splits=1", "sm_90a", 1},
                        {"fwd bf16 b=8 h=16 sq=512 sk=131072 d=128 batch_invariant", "sm_90a", 32},
                        {"fwd bf16 b=1 h=16 s=131072 d=128 mask=window:4096,0", "sm_90a", 1},
                        {"fwd fp32 h=1 s=1000000 d=64 mask=window:8192,0", "sm_80", 1},
                        {"fwd bf16 b=1 h=16 s=131072 d=128", "sm_90a", 1}}) {
    const Result<Plan> result = plan(problem(std::string(c.text)), target(c.target), {});
    ASSERT_TRUE(result) << c.text << ": " << result.error().message;
    EXPECT_EQ(result->splits, c.splits) << c.text << " on " << c.target;
  }
}

// Few heads are split into blocks of keys, so that all threads have work; many heads are left whole.
TEST(Plan, BackwardSplitsFewHeads) {
  const auto splits = [](const std::string& text) {
    const Result<Plan> result = plan(problem(text), target("cpu-avx512bf16"), {.threads = 16});
    EXPECT_TRUE(result) << result.error().message;
    return result->splits;
  };
  EXPECT_GE(splits("bwd bf16 b=1 h=2 s=8192 d=64"), 32);
  EXPECT_EQ(splits("bwd bf16 b=8 h=16 s=512 d=64"), 1);
}

// With many threads and equal blocks, each thread's last block is cut in about four, in multiples of 64 rows.
TEST(Plan, ForwardCutsTheLastBlocks) {
  struct Case {
    std::string_view text;
    int threads;
    std::int64_t rows, part_rows, whole, grid;
  };
  const Case cases[] = {
      {"fwd bf16 b=1 h=2 s=8192 d=128", 16, 256, 64, 48, 48 + 16 * 4},
      {"fwd bf16 b=1 h=2 s=8192 d=128", 1, 512, 512, 32, 32},
      {"fwd bf16 b=1 h=16 s=2048 d=128", 8, 512, 512, 64, 64},
      {"fwd bf16 b=1 h=16 s=2048 d=128", 9, 448, 128, 71, 71 + 9 * 4},
      {"fwd bf16 b=1 h=16 s=1536 d=128", 16, 256, 64, 80, 80 + 16 * 4},
      {"fwd bf16 b=1 h=8 s=600 d=128", 12, 128, 64, 28, 28 + 12 * 2},
      {"fwd bf16 b=1 h=2 s=1024 d=64", 16, 64, 64, 16, 32},
      {"fwd bf16 b=1 h=1 s=100 d=64", 16, 64, 64, 0, 2},
      {"fwd bf16 b=1 h=2 s=8192 d=128 mask=causal", 16, 256, 256, 64, 64},
      {"fwd bf16 b=1 h=2 s=8192 d=128 mask=window:1024,0", 16, 256, 64, 48, 112},
      {"fwd bf16 b=1 h=2 s=8192 d=128 splits=3", 16, 256, 256, 64, 3 * 64},
      // Blocks follow the number of tokens, not the number of sequences times the longest one.
      {"fwd bf16 varlen b=10 h=2 s=4096 tq=8165 tk=8165 d=128 mask=causal", 16, 256, 256, 320, 320},
      {"fwd fp32 b=1 h=2 s=8192 d=128", 16, 128, 64, 112, 112 + 16 * 2},
      {"fwd bf16 b=2 h=2 sq=0 sk=2000 d=128", 2, 0, 64, 0, 0},
      {"fwd bf16 b=2 h=2 sq=0 sk=2000 d=128", 16, 0, 64, 0, 0},
  };
  for (const Case& c : cases) {
    const std::string family = c.text.ends_with("splits=3") ? "forward_split" : "forward";
    Explanation explanation;
    const Result<Plan> made =
        plan(problem(c.text), target("cpu-amx"), {.threads = c.threads, .family = family}, &explanation);
    ASSERT_TRUE(made) << made.error().message;
    const auto schedule = made->stages.front().schedule.as<CpuForwardSchedule>();
    EXPECT_EQ(schedule.block_rows, c.rows) << c.text;
    EXPECT_EQ(schedule.part_rows, c.part_rows) << c.text;
    EXPECT_EQ(schedule.whole_blocks, c.whole) << c.text;
    EXPECT_EQ(made->stages.front().grid, c.grid) << c.text;
    EXPECT_THAT(to_text(explanation), HasSubstr(fmt::format("whole_blocks={}", c.whole)));
  }
}

// Heads with few rows that share K and V fill tiles and blocks together.
TEST(Plan, ForwardPacksHeadsWithFewRows) {
  struct Case {
    std::string_view text;
    int threads;
    std::int64_t heads, rows, grid;
  };
  const Case cases[] = {
      {"fwd bf16 b=1 hq=32 hk=4 sq=8 sk=4096 d=128 splits=1", 1, 8, 64, 4},
      {"fwd bf16 b=2 hq=12 hk=4 sq=50 sk=4096 d=128 splits=1", 1, 3, 192, 8},
      {"fwd bf16 b=1 hq=32 hk=4 sq=511 sk=4096 d=128", 1, 8, 512, 32},
      {"fwd bf16 b=1 hq=32 hk=4 sq=512 sk=4096 d=128", 1, 1, 512, 32},
      {"fwd bf16 b=1 h=32 sq=50 sk=4096 d=128 splits=1", 1, 1, 64, 32},
      {"fwd bf16 b=1 hq=32 hk=4 sq=50 sk=4096 d=128 dropout=0.1", 1, 1, 64, 32},
  };
  for (const Case& c : cases) {
    Explanation explanation;
    const Result<Plan> made = plan(problem(c.text), target("cpu-avx512"),
                                   {.threads = c.threads, .family = "forward"}, &explanation);
    ASSERT_TRUE(made) << made.error().message;
    const auto schedule = made->stages.front().schedule.as<CpuForwardSchedule>();
    EXPECT_EQ(schedule.pack_gqa, c.heads) << c.text;
    EXPECT_EQ(schedule.block_rows, c.rows) << c.text;
    EXPECT_EQ(made->stages.front().grid, c.grid) << c.text;
    EXPECT_THAT(to_text(explanation), HasSubstr(fmt::format("pack_gqa={}", c.heads)));
  }
  // With fewer blocks, which would not keep all threads busy, their keys are split.
  const Result<Plan> split =
      plan(problem("fwd bf16 b=1 hq=32 hk=4 sq=16 sk=8192 d=128"), target("cpu-avx512"), {.threads = 16});
  ASSERT_TRUE(split) << split.error().message;
  EXPECT_EQ(split->stages.front().key.algorithm.kernel, "cpu_forward");
  EXPECT_GE(split->stages.front().grid, 32);
}

TEST(Plan, PackedSequencesAreSizedByTokens) {
  const Result<Plan> result =
      plan(problem("bwd fp32 b=4 h=2 s=100 tq=150 tk=150 d=16 varlen"), target("cpu-avx2"), {});
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(result->workspace.bytes_of("delta"), 2 * 150 * 4);
}

/// Without a total, every sequence counts as one of the longest.
TEST(Plan, PackedSequencesNeedNoTotals) {
  for (const Target& on : *targets()) {
    for (const std::string pass : {"fwd", "bwd"}) {
      const std::string text = pass + " fp16 b=3 h=2 sq=200 sk=170 d=64 varlen";
      const Result<Plan> with = plan(problem(text + " tq=600 tk=510"), on, {}),
                         without = plan(problem(text), on, {});
      ASSERT_TRUE(with && without) << on.name;
      EXPECT_EQ(with->workspace.total, without->workspace.total) << on.name << " " << text;
      for (std::size_t i = 0; i < with->stages.size(); ++i) {
        const Stage &stage = with->stages[i], &other = without->stages[i];
        EXPECT_EQ(stage.grid, other.grid) << on.name << " " << stage.key.algorithm.kernel;
        if (stage.kernel->boxes == nullptr) continue;
        Arguments arguments{};
        for (Rows* rows : {&arguments.q, &arguments.k, &arguments.v, &arguments.o, &arguments.grad_o,
                           &arguments.grad_k, &arguments.grad_v})
          *rows = {nullptr, 0, 64, 128};
        const auto boxes = stage.kernel->boxes(*with, stage, arguments),
                   same = other.kernel->boxes(*without, other, arguments);
        ASSERT_TRUE(boxes && same) << (boxes ? same : boxes).error().message;
        EXPECT_EQ(boxes->box, same->box) << on.name << " " << stage.key.algorithm.kernel;
      }
    }
  }
}

}  // namespace
}  // namespace regard
