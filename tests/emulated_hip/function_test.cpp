// Masks that are functions on AMD targets, as tests/emulated/function_test.cpp.
#include <gtest/gtest.h>

#include "emulated_hip/problem.h"

namespace regard::test {
namespace {

TEST(HipFunctions, PortableReadsTheirBits) {
  const std::string documents = " keep=doc[b,q]==doc[b,kv]&&kv<=p tensors=doc:int32[2]";
  expect_right("gfx942", "fwd bf16 lse d=64 b=2 hq=4 hk=2 sq=70 sk=300" + documents);
  expect_right("gfx1100", "bwd fp16 d=64 b=2 h=2 sq=70 sk=90" + documents);
  expect_right("gfx1201",
               "fwd fp16 lse d=64 b=3 hq=4 hk=2 sq=3 sk=90 paged=16 lengths keep=m[h,kv]&&kv!=q "
               "tensors=m:bool[2]");
}

TEST(HipFunctions, AsRanges) {
  const std::string prefix = " keep=kv<=p||kv<past[b] tensors=past:int32[1]";
  expect_right("gfx942", "fwd bf16 lse d=64 b=2 hq=4 hk=2 sq=140 sk=150" + prefix);
  expect_right("gfx1100", "bwd fp16 d=64 b=2 h=2 sq=70 sk=90" + prefix);
  expect_right("gfx1201",
               "fwd fp16 lse d=64 b=3 h=2 sq=20 sk=90 tq=50 tk=200 varlen lengths keep=kv>=first[q]&&kv<=p+2 "
               "tensors=first:int32[1]");
}

/// Tiles that no row sees, that all rows see, and others; a head and rows without a key.
TEST(HipFunctions, TilesAreSkipped) {
  expect_right("gfx942",
               "fwd bf16 lse d=64 b=1 h=2 sq=200 sk=600 keep=(kv//64+q//64)%3==0&&h!=1||kv//128==q//100");
  expect_right("gfx1201", "fwd fp16 lse d=64 b=2 h=1 sq=70 sk=300 keep=kv//64!=b+1&&q<66");
  expect_right("gfx1100", "bwd fp16 d=64 b=1 h=2 sq=200 sk=150 keep=(kv//64+q//64)%3==h&&q!=130");
}

}  // namespace
}  // namespace regard::test
