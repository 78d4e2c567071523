// New tokens in a KV cache, alone and in front of forward, and merged parts, on AMD targets, as
// tests/emulated/append_test.cpp.
#include <gtest/gtest.h>

#include <string>

#include "emulated_hip/problem.h"

namespace regard::test {
namespace {

TEST(HipAppend, PutsTokensWhereTheyBelong) {
  expect_right("gfx942", "append bf16 b=4 h=3 sk=64 d=72 dv=40 paged=7 lengths snew=6 tnew=14");
  expect_right("gfx1100", "append bf16 b=1 h=2 sk=64 d=64 cache=4 slots=int32 tnew=9");
  expect_right("gfx90a", "append fp16 b=4 h=2 sk=64 d=300 paged=16 table=sglang snew=5");
}

TEST(HipAppend, RotatesAndQuantizes) {
  const std::string words = " b=3 h=2 sk=64 d=72 paged=16 lengths snew=3 rope=half rotary=72 ";
  expect_right("gfx942", "append bf16" + words + "kv=fp8_fnuz descale=token");
  expect_right("gfx942", "append fp16" + words + "kv=fp8_e5m2_fnuz descale=head");
  expect_right("gfx1201", "append fp16" + words + "kv=fp8_e5m2 descale=page");
  expect_right("gfx1100", "append bf16" + words + "kv=int8 descale=token");
}

TEST(HipAppend, IsTheFirstStageOfForward) {
  expect_right(
      "gfx942",
      "fwd bf16 lse b=3 hq=4 hk=2 sq=3 sk=64 d=64 paged=16 lengths snew=3 mask=causal rope=half rotary=64");
}

TEST(HipMerge, IsRight) {
  expect_right("gfx942", "merge bf16 lse b=2 h=3 sq=9 d=32 parts=5 accumulate");
  expect_right("gfx1100", "merge fp16 out=fp32 lse b=3 h=2 sq=20 tq=41 varlen d=111 parts=70");
}

}  // namespace
}  // namespace regard::test
