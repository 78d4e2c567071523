// New tokens of a KV cache in plans: alone, and as the first stage of forward; and merged parts.
#include <gmock/gmock.h>

#include <algorithm>

#include "plan/kernel_finder.h"
#include "plan/plan.h"

namespace regard {
namespace {

Plan planned(std::string_view text, std::string_view target) {
  const Result<Plan> made = plan(*parse(text), **find_target(target), {.threads = 2});
  EXPECT_TRUE(made) << text << " on " << target << ": " << (made ? "" : made.error().message);
  return made ? *made : Plan();
}

std::string keys_of(const Plan& plan) {
  std::string text;
  for (const Stage& stage : plan.stages) text += (text.empty() ? "" : "; ") + print(stage.key);
  return text;
}

TEST(AppendPlan, IsOneStageWhoseKernelDependsOnTypesAtMost) {
  EXPECT_EQ(keys_of(planned("append fp16 b=2 h=4 sk=1024 d=128 paged=7 lengths snew=65 kv=int8 descale=token",
                            "cpu-avx2")),
            "cpu-avx2 cpu_append | append bf16");
  EXPECT_EQ(
      keys_of(planned("append fp16 b=2 h=4 sk=1024 d=128 cache=4 snew=65 rope=half rotary=128", "sm_80")),
      "sm_80 portable_append warps=4 | append fp16");
  EXPECT_EQ(keys_of(planned("append bf16 b=1 h=4 sk=64 d=40 paged=16 slots=int64 tnew=5 kv=fp8", "gfx942")),
            "gfx942 portable_append warps=4 | append bf16 kv=fp8");
}

TEST(AppendPlan, GoesBeforeForward) {
  const std::string_view text = "fwd bf16 b=3 hq=8 hk=2 sq=2 sk=256 d=60 snew=2 paged=16 lengths";
  for (const std::string_view target : {"cpu-avx2", "sm_90a", "gfx942"}) {
    const Plan without = planned(text, target);
    ASSERT_EQ(without.stages.size(), 2) << target;
    EXPECT_THAT(print(without.stages[0].key), testing::HasSubstr("_append"));
    EXPECT_EQ(without.rotated_q, WorkspaceLayout::none);
    const Plan rotated = planned(std::string(text) + " rope=half rotary=32", target);
    // Rows begin at multiples of 16 bytes.
    EXPECT_EQ(rotated.workspace.bytes_of("rotated_q"), 3 * 2 * 8 * 64 * 2) << target;
    EXPECT_GT(rotated.stages[0].grid, without.stages[0].grid) << target;
    EXPECT_EQ(rotated.stages[1].overlaps, target == "sm_90a");
  }
}

TEST(AppendPlan, ItsKernelIsFoundWhereSignaturesSayThatThereIsACache) {
  const auto found = [](std::string_view signature) {
    KernelNumbers numbers;
    const std::vector<Variant> variants = {{.signatures = {*parse_signature(signature)}}};
    const Target& target = **find_target("sm_90a");
    std::string text;
    for (const std::uint64_t number : KernelFinder(variants, numbers).on(target).numbers)
      text += print(numbers.key_of(number, target.name)) + "\n";
    return text;
  };
  EXPECT_THAT(found("fwd bf16 d=128 paged"), testing::HasSubstr("portable_append warps=4 | append bf16"));
  EXPECT_THAT(found("append bf16 d=128 kv=fp8"), testing::HasSubstr("append bf16 kv=fp8"));
  EXPECT_THAT(found("fwd bf16 d=128"), testing::Not(testing::HasSubstr("append")));
  EXPECT_THAT(found("merge bf16 d=128 out=fp32"), testing::HasSubstr("portable_merge"));
}

TEST(MergePlan, HasOneStage) {
  EXPECT_EQ(keys_of(planned("merge bf16 b=2 h=4 sq=7 d=64 parts=3", "cpu-avx2")),
            "cpu-avx2 cpu_combine | merge bf16");
  EXPECT_EQ(keys_of(planned("merge fp16 out=fp32 b=2 h=4 sq=7 d=64 parts=3 accumulate", "sm_80")),
            "sm_80 portable_merge warps=4 | merge fp16 out=fp32");
}

}  // namespace
}  // namespace regard
