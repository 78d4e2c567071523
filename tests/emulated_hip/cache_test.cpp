// The portable forward kernel of AMD targets on KV caches, as tests/emulated/cache_test.cpp.
#include <gtest/gtest.h>

#include <string>

#include "emulated_hip/problem.h"

namespace regard::test {
namespace {

TEST(HipCache, DenseSequences) {
  expect_right("gfx942", "fwd fp16 lse d=64 b=4 hq=4 hk=2 sq=3 sk=100 cache=7 lengths mask=causal");
  expect_right("gfx1100", "fwd bf16 lse d=64 b=4 hq=3 hk=1 sq=1 sk=90 cache=3 left_padding");
}

TEST(HipCache, PagesOfEverySize) {
  for (const char* page : {"1", "7", "16", "48"}) {
    const std::string words = std::string(" lse b=5 sk=70 paged=") + page;
    expect_right("gfx942", "fwd bf16 d=64 hq=3 hk=1 sq=3 lengths mask=causal" + words);
    expect_right("gfx1201", "fwd fp16 d=128 hq=8 hk=1 sq=1 table=sglang" + words);
    expect_right("gfx950",
                 "fwd bf16 d=80 hq=2 hk=2 sq=20 lengths left_padding mask=window:30,0,sink=4" + words);
  }
}

TEST(HipCache, PackedQueries) {
  const std::string words = " lse b=5 sq=30 tq=60 sk=90 varlen ";
  expect_right("gfx942", "fwd bf16 d=64 hq=3 hk=1 paged=16 lengths mask=causal sink" + words);
  expect_right("gfx1100", "fwd fp16 d=128 hq=6 hk=2 paged=3 lengths mask=window:20,0,sink=3" + words);
  expect_right("gfx90a", "fwd bf16 d=300 hq=6 hk=2 paged=16 table=sglang mask=causal" + words);
  expect_right("gfx950", "fwd bf16 d=40 hq=12 hk=2 paged=16 lengths splits=2 sink mask=causal" + words);
}

TEST(HipCache, TypesAndFactors) {
  const std::string words = " lse b=4 hq=6 hk=2 sq=3 sk=90 mask=causal";
  expect_right("gfx942", "fwd bf16 d=64 paged=16 lengths kv=fp8_fnuz descale=token" + words);
  expect_right("gfx942", "fwd fp16 d=128 paged=7 lengths kv=int8 descale=page" + words);
  expect_right("gfx90a", "fwd bf16 d=64 cache=5 lengths kv=int8 descale=head" + words);
  expect_right("gfx1201", "fwd fp16 d=64 paged=16 table=sglang kv=fp8_e5m2 descale=tensor" + words);
  expect_right("gfx950", "fwd bf16 d=64 paged=16 kv_layout=vectorized lengths" + words);
}

}  // namespace
}  // namespace regard::test
