// Every kernel with memory that ends at a page without access: not a byte of a tensor, of a part of the
// workspace or of a thread's scratch is read or written out of bounds. Correct results are left to the other
// tests.
#include <gtest/gtest.h>

#include <map>
#include <memory>

#include "engine/bind.h"
#include "engine/prepared.h"
#include "kernels/support.h"
#include "support/part.h"

namespace regard::test {
namespace {

using Texts = std::vector<std::string>;

/// The plan's workspace with each part in a separate allocation.
class GuardedWorkspace {
 public:
  GuardedWorkspace(const Plan& plan, Guarded edge) : spread_(plan) {
    for (WorkspaceLayout::Part& part : spread_.workspace.parts) {
      parts_.push_back(std::make_unique<GuardedMemory>(std::string(part.name), part.bytes, edge));
      std::ranges::fill(parts_.back()->room(), std::uint8_t{0xff});
      part.offset = parts_.back()->data() - parts_.front()->data();
    }
  }
  /// The arguments of a stage, with this workspace.
  BoundArguments bind(const Stage& stage, const regard_arguments& given) const {
    BoundArguments bound{regard::bind(spread_, given, parts_.empty() ? nullptr : parts_.front()->data()), {}};
    stage.schedule.write(bound.schedule, spread_.workspace,
                         parts_.empty() ? nullptr : parts_.front()->data());
    return bound;
  }

 private:
  Plan spread_;
  std::vector<std::unique_ptr<GuardedMemory>> parts_;
};

/// Runs the plan's blocks one after the other in this thread.
std::string run_guarded(Case& c, const Path& path, Guarded edge) {
  const auto prepared = prepared_plan(c.problem(), {path.target, path.family, path.threads});
  if (!prepared) return prepared.error().message;
  const auto ready = (*prepared)->ready();
  if (!ready) return ready.error().message;
  const Plan& plan = *(*ready)->plan;
  if (plan.target->on_gpu()) return "";  // GPUs have their own memory checkers
  const GuardedWorkspace workspace(plan, edge);
  for (std::size_t i = 0; i < plan.stages.size(); ++i) {
    const Stage& stage = plan.stages[i];
    const BoundArguments bound = workspace.bind(stage, c.arguments());
    const GuardedMemory scratch("scratch", stage.scratch_bytes, edge);
    std::ranges::fill(scratch.room(), std::uint8_t{0xff});
    const cpu::KernelFunction kernel = (*ready)->kernels[i]->code.function;
    for (std::int64_t block = 0; block < stage.grid; ++block) {
      const std::string fault = fault_of([&] { kernel(&bound.shared, block, scratch.data()); });
      if (!fault.empty()) return print(stage.key) + ", block " + std::to_string(block) + ", " + fault;
    }
  }
  std::string broken;
  for (int i = 0; i < REGARD_ROLE_COUNT; ++i)
    if (is_written(tensor_use(c.problem(), static_cast<regard_role>(i))))
      broken += c.broken_guards(static_cast<regard_role>(i));
  return broken;
}

/// Every first text combined with every second one.
Texts product(const Texts& heads, const Texts& tails) {
  Texts texts;
  for (const std::string& head : heads)
    for (const std::string& tail : tails) texts.push_back(head + " " + tail);
  return texts;
}

/// Every problem with either edge, with the kernels of `family`.
void expect_bounds_kept(const Texts& heads, const Texts& tails, const std::string& family,
                        const Texts& targets, const CaseOptions& options = {}, int threads = 2) {
  for (const std::string& text : product(heads, tails)) {
    for (const Guarded edge : {Guarded::at_start, Guarded::at_end}) {
      if (!takes_next_problem()) continue;
      CaseOptions guarded = options;
      guarded.guarded = edge;
      Case c(text, guarded);
      for (const std::string& target : targets) {
        c.poison_outputs();
        EXPECT_EQ(run_guarded(c, {target, family, threads}, edge), "")
            << c.description() << " on " << target << " " << family;
      }
    }
  }
}

TEST(Guarded, AFaultIsASentence) {
  const GuardedMemory memory("k", 280, Guarded::at_end);
  volatile std::uint8_t* const data = memory.data();
  EXPECT_EQ(fault_of([&] { data[279] = 1; }), "");
  EXPECT_EQ(fault_of([&] { data[280] = 1; }), "wrote byte 280 of k, which has 280 bytes");
  EXPECT_EQ(fault_of([&] { (void)data[300]; }), "read byte 300 of k, which has 280 bytes");
  const GuardedMemory empty("v", 0, Guarded::at_start);
  volatile std::uint8_t* const none = empty.data();
  EXPECT_EQ(fault_of([&] { (void)none[0]; }), "read byte 0 of v, which has 0 bytes");
  EXPECT_EQ(fault_of([&] { (void)none[-8]; }), "read byte -8 of v, which has 0 bytes");
}

// The signatures are those of other tests, whose kernels are in the cache; lengths are around vectors and
// tiles.

TEST(Guarded, ForwardTypesAndHeadDimensions) {
  const Texts sizes = {"sq=70 sk=131", "sq=1 sk=1", "sq=3 sk=67", "sq=65 sk=193", "sq=257 sk=15"};
  for (const char* dtype : {"fp32", "bf16", "fp16"})
    for (const char* dims : {"d=1", "d=7 dv=40", "d=59", "d=64", "d=96 dv=111", "d=128"})
      expect_bounds_kept({std::string("fwd ") + dtype + " lse h=2 " + dims}, sizes, "forward",
                         runnable_targets());
  expect_bounds_kept({"fwd bf16 lse h=2 d=64", "fwd bf16 lse h=2 d=59", "fwd bf16 lse h=2 d=7 dv=40",
                      "fwd fp16 lse h=2 d=64", "fwd fp16 lse h=2 d=59", "fwd fp16 lse h=2 d=7 dv=40"},
                     sizes, "forward", {"cpu-amx-emulated"});
  // K is read in place, up to its end.
  expect_bounds_kept({"fwd fp32 lse h=1 d=64", "fwd bf16 lse h=1 d=64"}, {"sq=5 sk=96", "sq=70 sk=288"},
                     "forward", runnable_targets());
  expect_bounds_kept({"fwd bf16 lse h=2 d=64", "fwd fp16 lse h=2 d=64"}, {"sq=5 sk=96", "sq=70 sk=288"},
                     "forward", {"cpu-amx-emulated"});
  // Groups, lengths and packed sequences.
  expect_bounds_kept({"fwd bf16 lse hq=4 hk=1 d=64", "fwd bf16 lse b=2 hq=4 hk=1 d=59 lengths",
                      "fwd fp16 lse b=2 hq=4 hk=1 d=59 lengths"},
                     {"sq=70 sk=331", "sq=65 sk=608"}, "forward", {"cpu-amx-emulated"}, {}, 1);
  expect_bounds_kept({"fwd bf16 lse varlen b=3 hq=4 hk=1 tq=150 tk=1100 d=64"}, {"sq=90 sk=520"}, "forward",
                     {"cpu-amx-emulated"}, {}, 1);
}

const Texts masks_and_modifiers = {
    "mask=window:15,0,sink=3",  "mask=causal ranges",       "bits", "mask=causal bits ranges", "lengths",
    "lengths mask=causal sink", "mask=causal_top_left sink"};

TEST(Guarded, ForwardFeatures) {
  expect_bounds_kept({"fwd fp32 lse b=2 hq=4 hk=2 d=64", "fwd bf16 lse b=2 hq=4 hk=2 d=64"},
                     product(masks_and_modifiers, {"sq=70 sk=131", "sq=129 sk=33"}), "forward",
                     runnable_targets());
  expect_bounds_kept({"fwd fp32 lse b=2 h=2 d=64", "fwd fp16 lse b=2 h=2 d=64"},
                     product({"softcap=5 dropout=0.2 dropout_mask sink", "bias=bh dropout=0.5 dropout_mask",
                              "bias=bh bias_type=fp32 dropout=0.5", "bias=11 dropout=0.5 softcap=2",
                              "bias=alibi_b sink mask=causal"},
                             {"sq=70 sk=131", "sq=129 sk=33", "sq=1 sk=7"}),
                     "forward", runnable_targets());
  expect_bounds_kept({"fwd fp32 lse varlen b=5 hq=4 hk=2 d=64", "fwd bf16 lse varlen b=5 hq=4 hk=2 d=64"},
                     product({"", "lengths", "mask=causal ranges", "lengths bits"},
                             {"sq=150 sk=170 tq=401 tk=453", "sq=7 sk=9 tq=20 tk=31"}),
                     "forward", runnable_targets());
}

TEST(Guarded, ForwardLayoutsAndPaddedRows) {
  CaseOptions options;
  options.padded_rows = options.broadcast = true;
  expect_bounds_kept({"fwd fp32 lse b=2 hq=4 hk=1 d=64", "fwd bf16 lse b=2 hq=4 hk=1 d=59"},
                     product({"layout=bshd", "layout=bhsd", "layout=sbhd"}, {"sq=70 sk=131", "sq=5 sk=33"}),
                     "forward", runnable_targets(), options);
}

TEST(Guarded, ForwardInParts) {
  expect_bounds_kept({"fwd fp32 lse b=2 h=2 d=64 splits=3", "fwd bf16 lse b=2 h=2 d=64 splits=3"},
                     product({"", "mask=causal", "bits", "lengths sink"}, {"sq=71 sk=700", "sq=20 sk=33"}),
                     "forward_split", runnable_targets());
}

TEST(Guarded, Decode) {
  for (const char* dtype : {"fp32", "bf16", "fp16"})
    expect_bounds_kept({std::string("fwd ") + dtype + " lse splits=2 hq=4 hk=1 d=128",
                        std::string("fwd ") + dtype + " lse splits=2 hq=2 hk=2 d=59 dv=40",
                        std::string("fwd ") + dtype + " lse splits=2 hq=3 hk=1 d=80 mask=causal",
                        std::string("fwd ") + dtype + " lse splits=2 hq=4 hk=1 d=13 dv=7",
                        std::string("fwd ") + dtype + " lse splits=2 hq=1 hk=1 d=256 dv=200"},
                       {"sq=1 sk=333", "sq=1 sk=1", "sq=1 sk=65", "sq=1 sk=100"}, "decode",
                       runnable_targets());
  expect_bounds_kept(
      {"fwd bf16 lse b=2 hq=4 hk=2 sq=2 sk=701 d=64 splits=3",
       "fwd bf16 lse b=2 hq=4 hk=2 sq=2 sk=33 d=64 splits=0"},
      {"mask=window:100,0,sink=5", "ranges", "mask=causal bits ranges", "softcap=5", "bias=bh", "bias=11",
       "bias=11 bias_type=fp32", "bias=alibi_b", "sink", "lengths mask=causal sink", "layout=bhsd"},
      "decode", {runnable_targets().front()});
  expect_bounds_kept({"fwd bf16 lse varlen b=4 hq=4 hk=2 sq=3 sk=400 tq=9 tk=1001 d=64 splits=2"},
                     {"", "mask=causal", "lengths"}, "decode", {runnable_targets().front()});
}

// Tables and lists of pages end where the last sequence's pages do.
TEST(Guarded, Caches) {
  const Texts caches = {"paged=7 lengths", "paged=16 table=sglang", "paged=480 lengths left_padding",
                        "cache=4 lengths", "paged=64 lengths mask=window:50,0,sink=3"};
  const Texts targets = {runnable_targets().front(), runnable_targets().back()};
  expect_bounds_kept({"fwd bf16 lse b=3 hq=4 hk=2 sk=301 d=64 sq=2"}, caches, "decode", targets);
  expect_bounds_kept({"fwd bf16 lse b=3 hq=4 hk=2 sk=301 d=64 sq=70"}, caches, "forward", targets);
  expect_bounds_kept({"fwd bf16 lse b=3 hq=4 hk=2 sk=301 d=64 sq=3"}, caches, "generic", targets);
  const Texts types = {"kv=int8 descale=token paged=16 lengths", "kv=fp8 descale=page paged=3 lengths",
                       "kv_layout=vectorized paged=16 lengths"};
  expect_bounds_kept({"fwd bf16 lse b=3 hq=4 hk=2 sk=301 d=64 sq=2"}, types, "decode", targets);
  expect_bounds_kept({"fwd bf16 lse b=3 hq=4 hk=2 sk=301 d=64 sq=70"}, types, "forward", targets);
}

TEST(Guarded, BackwardTypesAndHeadDimensions) {
  const Texts sizes = {"sq=70 sk=131", "sq=1 sk=1", "sq=3 sk=67", "sq=65 sk=193", "sq=257 sk=15"};
  expect_bounds_kept({"bwd fp32 h=1", "bwd bf16 h=1"},
                     product({"d=1", "d=7 dv=40", "d=59", "d=64", "d=128", "d=192 dv=128"}, sizes),
                     "backward", runnable_targets());
  expect_bounds_kept({"bwd fp16 h=1"}, product({"d=64", "d=59", "d=96 dv=111"}, sizes), "backward",
                     runnable_targets());
  expect_bounds_kept({"bwd bf16 h=1 d=64", "bwd bf16 h=1 d=59", "bwd bf16 h=1 d=7 dv=40", "bwd fp16 h=1 d=59",
                      "bwd fp16 h=1 d=7 dv=40"},
                     sizes, "backward", {"cpu-amx-emulated"});
  expect_bounds_kept({"bwd fp16 h=1 d=512 dv=500"}, {"sq=70 sk=131"}, "backward", {"cpu-amx-emulated"});
}

TEST(Guarded, BackwardPartsOfTheQueries) {
  const Texts sizes = {"sq=4160 sk=70", "sq=6200 sk=15"};
  for (int threads : {1, 3}) {  // one block processes all parts; parts have separate blocks
    expect_bounds_kept({"bwd fp32 h=1 d=8", "bwd bf16 h=1 d=7 dv=3"}, sizes, "backward",
                       {runnable_targets().front()}, {}, threads);
    expect_bounds_kept({"bwd bf16 h=1 d=7 dv=3"}, sizes, "backward", {"cpu-amx-emulated"}, {}, threads);
  }
}

TEST(Guarded, BackwardFeatures) {
  expect_bounds_kept({"bwd fp32 b=2 hq=4 hk=2 d=64", "bwd bf16 b=2 hq=4 hk=2 d=64"},
                     product(masks_and_modifiers, {"sq=70 sk=131", "sq=129 sk=33"}), "backward",
                     runnable_targets());
  expect_bounds_kept({"bwd fp32 b=2 h=2 d=64", "bwd bf16 b=2 h=2 d=40"},
                     product({"softcap=5 dropout=0.2 sink", "bias=bh dbias dropout=0.5 sink",
                              "bias=bh bias_type=fp32 dbias dropout=0.5 sink",
                              "bias=11 dbias dropout=0.5 softcap=2", "bias=alibi_b sink mask=causal"},
                             {"sq=70 sk=131", "sq=129 sk=33", "sq=1 sk=7"}),
                     "backward", runnable_targets());
  expect_bounds_kept({"bwd fp32 varlen b=5 hq=4 hk=2 d=64", "bwd bf16 varlen b=5 hq=4 hk=2 d=64"},
                     product({"", "lengths", "mask=causal ranges", "lengths bits"},
                             {"sq=150 sk=170 tq=401 tk=453", "sq=7 sk=9 tq=20 tk=31"}),
                     "backward", runnable_targets());
  expect_bounds_kept({"bwd fp32 d=64 h=1 sq=70 sk=701", "bwd bf16 d=64 hq=2 hk=1 sq=70 sk=901"},
                     {"", "mask=causal", "bits ranges", "sink"}, "backward", runnable_targets());
}

TEST(Guarded, BackwardLayoutsAndPaddedRows) {
  CaseOptions options;
  options.padded_rows = options.broadcast = true;
  expect_bounds_kept({"bwd fp32 b=2 hq=4 hk=1 d=64", "bwd bf16 b=2 hq=4 hk=1 d=59"},
                     product({"layout=bshd", "layout=bhsd", "layout=sbhd"}, {"sq=70 sk=131", "sq=5 sk=33"}),
                     "backward", runnable_targets(), options);
}

// What is kept for sums over more keys, queries or heads than fp32 can accurately add.
TEST(Guarded, LongSums) {
  const Texts targets = {runnable_targets().front()};
  expect_bounds_kept({"fwd fp32 lse h=1 sk=131081 d=1"}, {"sq=70 splits=1"}, "forward", targets);
  expect_bounds_kept({"fwd bf16 lse h=1 sk=131081 d=1"}, {"sq=70 splits=1"}, "forward", {"cpu-amx-emulated"});
  expect_bounds_kept({"fwd fp32 lse h=1 sk=4203 d=1"}, {"sq=3 splits=2", "sq=1 splits=2"}, "decode", targets);
  expect_bounds_kept({"fwd fp32 lse h=1 sk=131081 d=1"}, {"sq=3"}, "generic", targets);
  const Texts backward = {"sq=3 sk=131081", "sq=131210 sk=3"};
  for (const int threads : {1, 3})
    expect_bounds_kept({"bwd fp32 h=1 d=1"}, backward, "backward", targets, {}, threads);
  expect_bounds_kept({"bwd bf16 h=1 d=1"}, {"sq=3 sk=131081"}, "backward", {"cpu-amx-emulated"});
  expect_bounds_kept({"bwd fp32 h=1 d=1"}, backward, "generic", targets);
  expect_bounds_kept({"bwd fp32 h=1 d=8 mask=causal_top_left dbias bias=11"}, {"sq=131210 sk=3"}, "backward",
                     targets);
  expect_bounds_kept({"bwd fp32 b=600 h=2 sq=1 sk=3 d=64 dbias"}, {"bias=11"}, "backward", targets);
}

TEST(Guarded, Generic) {
  const Texts types = {"fp32", "bf16", "fp16"},
              sizes = {"sq=70 sk=133 d=20 dv=12", "sq=1 sk=1 d=1", "sq=5 sk=67 d=65 dv=7"},
              features = {"mask=causal ranges bits", "bias=bh sink", "softcap=2",
                          "bias=alibi_b sink",       "dropout=0.2",  "lengths mask=causal"};
  expect_bounds_kept(product({"fwd"}, types), product({"lse b=3 hq=4 hk=2"}, product(sizes, features)),
                     "generic", runnable_targets());
  expect_bounds_kept(product({"bwd"}, types), product({"b=3 hq=4 hk=2"}, product(sizes, features)), "generic",
                     runnable_targets());
  expect_bounds_kept({"fwd fp8 lse b=2 hq=4 hk=2", "fwd fp8_e5m2 lse b=2 hq=4 hk=2 descale=head"},
                     product({"out=bf16", "out=fp32"}, sizes), "generic", runnable_targets());
  expect_bounds_kept({"fwd fp32 lse", "bwd bf16 deterministic"},
                     {"varlen b=3 h=2 sq=70 sk=133 tq=120 tk=201 d=20 lengths ranges bits bias=1h"},
                     "generic", runnable_targets());
}

}  // namespace
}  // namespace regard::test
