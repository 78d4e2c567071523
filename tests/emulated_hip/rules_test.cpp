// What other dispatchers for AMD's GPUs refuse, or leave to a warning, is computed here (docs/amd-rules.md).
#include <gtest/gtest.h>

#include <string>

#include "emulated_hip/problem.h"

namespace regard::test {
namespace {

TEST(HipRules, HeadDimensionsOf192And128TakeBiasAndDropout) {
  expect_right("gfx942", "fwd bf16 lse d=192 dv=128 b=1 h=2 s=100 bias=bh dropout=0.2");
  expect_right("gfx1201", "fwd fp16 lse d=192 dv=128 b=1 h=2 s=100 bias=alibi dropout=0.2");
}

TEST(HipRules, ASoftCapGoesWithABias) {
  expect_right("gfx950", "fwd fp16 lse d=64 b=1 h=2 s=100 bias=bh softcap=10");
  expect_right("gfx1100", "bwd bf16 d=64 b=1 h=2 s=70 bias=bh dbias softcap=5");
}

/// With sums in registers of their own, there is room for what other GPUs refuse.
TEST(HipRules, WideHeadsTakeASoftCapABiasAndDropout) {
  expect_right("gfx90a", "fwd fp16 lse d=512 b=1 h=1 s=70 bias=bh dropout=0.2");
  expect_right("gfx942", "bwd bf16 d=512 b=1 h=1 s=70 softcap=5 dropout=0.2");
}

TEST(HipRules, PartsOfAnyNumberOfColumnsAreMerged) {
  expect_right("gfx90a", "fwd bf16 lse d=40 dv=111 b=2 hq=4 hk=1 sq=3 sk=300 splits=3");
  expect_right("gfx1201", "fwd fp8 lse d=64 dv=24 b=1 h=2 sq=3 sk=300 splits=2");
}

/// In fp16 most weights of such a row are below its normal numbers, which CDNA2 takes as zero.
TEST(HipRules, ManySmallWeightsCount) {
  EXPECT_EQ(mistakes_on("gfx90a", "fwd fp16 lse b=2 hq=2 hk=1 d=16 dv=64 sq=55 sk=256 bias=alibi splits=3"),
            "");
}

}  // namespace
}  // namespace regard::test
