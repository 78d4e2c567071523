// The portable forward kernel of AMD targets where V is the first columns of K, as
// tests/emulated/latent_test.cpp.
#include <gtest/gtest.h>

#include <string>

#include "emulated_hip/problem.h"

namespace regard::test {
namespace {

TEST(HipLatent, ATileIsKAndV) {
  const std::string words = " lse latent d=576 dv=512 b=3 hk=1 sk=70 lengths";
  expect_right("gfx942", "fwd bf16 hq=16 sq=2 paged=16 mask=causal" + words);
  expect_right("gfx942", "fwd fp16 hq=5 sq=1 paged=7 k_rope splits=2" + words);
  expect_right("gfx1100", "fwd bf16 hq=16 sq=1 cache=4 k_rope" + words);
  expect_right("gfx1201", "fwd fp16 hq=3 sq=2 paged=64 mask=causal" + words);
  expect_right("gfx950", "fwd bf16 hq=3 sq=2 paged=64 mask=causal kv=int8 descale=tensor" + words);
}

TEST(HipLatent, FactorsOfColumns) {
  const std::string words = " lse latent k_rope descale=columns b=2 hk=1 sk=70 lengths";
  expect_right("gfx942", "fwd bf16 hq=16 sq=2 paged=16 mask=causal kv=fp8 d=576 dv=512" + words);
  expect_right("gfx1100", "fwd fp16 hq=3 sq=1 paged=64 kv=fp8 d=576 dv=512" + words);
  expect_right("gfx950", "fwd bf16 hq=4 sq=2 paged=1 kv=fp8_fnuz d=192 dv=128" + words);
}

TEST(HipLatent, SmallerHeadDims) {
  expect_right("gfx942",
               "fwd bf16 lse latent k_rope d=96 dv=64 b=3 hq=8 hk=1 sq=2 sk=90 paged=16 lengths mask=causal");
  expect_right("gfx1100", "fwd fp16 lse latent k_rope d=41 dv=23 b=3 hq=4 hk=1 sq=2 sk=70 paged=7 lengths");
}

}  // namespace
}  // namespace regard::test
