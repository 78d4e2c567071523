// The portable forward kernel on KV caches. Every row that no call reads is NaN, and page tables end after
// the last page or hold -1 there.
#include <gtest/gtest.h>

#include "emulated/device.h"
#include "kernels/support.h"

namespace regard::test {
namespace {

Path portable() {
  return {emulated_target(), "portable_forward"};
}

/// On every kind of GPU.
TEST(EmulatedCache, PortableReadsCaches) {
  expect_all_right({"fwd fp16 lse d=64 b=4 hq=6 hk=2 sq=3 sk=90 paged=7 lengths mask=causal",
                    "fwd fp16 lse d=64 b=4 hq=6 hk=2 sq=3 sk=90 paged=16 kv=int8 descale=token table=sglang"},
                   portable());
}

TEST(EmulatedCache, DenseSequences) {
  expect_all_right({"fwd fp16 lse d=64 b=5 hq=4 hk=2 sq=3 sk=100 cache=7 lengths mask=causal",
                    "fwd fp16 lse d=64 b=4 hq=3 hk=1 sq=1 sk=90 cache=3 left_padding",
                    "fwd fp16 lse d=80 b=4 hq=2 hk=2 sq=70 sk=150 lengths left_padding mask=causal"},
                   portable());
}

TEST(EmulatedCache, PagesOfEverySize) {
  for (const char* page : {"1", "3", "7", "16", "48", "64"}) {
    const std::string words = std::string(" lse b=5 sk=70 paged=") + page;
    expect_right("fwd fp16 d=64 hq=3 hk=1 sq=3 lengths mask=causal" + words, portable());
    expect_right("fwd fp16 d=128 hq=8 hk=1 sq=1 table=sglang" + words, portable());
    expect_right("fwd fp16 d=80 hq=2 hk=2 sq=20 lengths left_padding mask=window:30,0,sink=4" + words,
                 portable());
  }
}

/// Decoded rows beside longer ones; heads that share K and V are packed, in groups of any size.
TEST(EmulatedCache, PackedQueries) {
  const std::string words = " lse b=5 sq=30 tq=60 sk=90 varlen ";
  for (const char* problem : {"fwd fp16 d=64 hq=3 hk=1 paged=16 lengths mask=causal sink",
                              "fwd fp16 d=128 hq=6 hk=2 paged=3 lengths mask=window:20,0,sink=3",
                              "fwd fp16 d=64 hq=2 hk=2 paged=16 lengths left_padding bias=alibi mask=causal",
                              "fwd fp16 d=64 hq=4 hk=2 cache=6 lengths left_padding mask=causal sink",
                              "fwd fp16 d=40 hq=12 hk=2 paged=16 lengths splits=2 sink mask=causal"})
    expect_right(problem + words, portable());
  expect_all_right(
      {"fwd fp16 lse d=64 b=3 hq=6 hk=2 sq=4 sk=90 paged=16 lengths mask=causal ranges",
       "fwd fp16 lse d=72 b=3 hq=4 hk=2 sq=4 sk=90 paged=5 lengths bits dropout=0.3",
       "fwd fp16 lse d=57 b=3 hq=9 hk=3 sq=4 sk=190 paged=11 lengths splits=3 layout=bhsd mask=causal"},
      portable());
}

/// Rows of any alignment, of gaps, of K and V side by side.
TEST(EmulatedCache, Strides) {
  CaseOptions gaps, beside;
  gaps.padded_rows = true, beside.side_by_side = true;
  const std::string words = "fwd fp16 lse b=3 hq=4 hk=2 sq=2 sk=90 lengths ";
  expect_right(words + "d=64 paged=7 layout=bhsd", portable(), gaps);
  expect_right(words + "d=64 paged=16 layout=sbhd", portable(), beside);
  expect_right(words + "d=72 dv=24 paged=16 kv_layout=vectorized", portable());
}

TEST(EmulatedCache, TypesAndFactors) {
  const std::string words = "lse b=4 hq=6 hk=2 sq=3 sk=90 mask=causal ";
  expect_right("fwd fp16 d=64 paged=7 lengths kv=int8 descale=page " + words, portable());
  expect_right("fwd fp16 d=80 cache=5 lengths kv=int8 descale=tensor " + words, portable());
  expect_right("fwd fp16 lse b=3 hq=4 hk=2 sq=1 sk=500 d=59 cache=5 lengths kv=int8 descale=token splits=2",
               portable());
  expect_right("fwd bf16 d=64 paged=16 lengths kv=fp8 descale=token " + words, portable());
  expect_right("fwd bf16 d=128 paged=16 table=sglang kv=fp8_e5m2 descale=head " + words, portable());
  expect_right("fwd bf16 d=64 paged=16 kv=int8 descale=token kv_layout=vectorized " + words, portable());
  expect_right("fwd fp16 lse b=3 hq=4 hk=2 sq=20 sk=90 tq=50 tk=200 varlen d=64 kv=fp8 mask=causal",
               portable());
}

/// Keys are split by the lengths on the device: the bound that the plan knows changes no bit.
TEST(EmulatedCache, PartsDoNotDependOnTheBound) {
  const std::string words = "fwd fp16 lse d=64 b=1 hq=4 hk=1 sq=1 lengths splits=4 ";
  for (const char* family : {"portable_forward", "sm90_forward"}) {
    if (family == std::string("sm90_forward") && emulated_target() != "sm_90a") continue;
    Case near(words + "sk=700"), far(words + "sk=4000");
    for (Case* c : {&near, &far}) c->set(REGARD_LENGTHS_K, 0, 650);
    for (const regard_role role : {REGARD_Q, REGARD_K, REGARD_V})
      for (std::int64_t i = 0; i < near.count(role); ++i) far.set(role, i, near.get(role, i));
    for (Case* c : {&near, &far}) ASSERT_EQ(run(*c, {emulated_target(), family}), "");
    for (const regard_role role : {REGARD_O, REGARD_LSE})
      EXPECT_TRUE(near.bytes(role) == far.bytes(role)) << family;
  }
}

}  // namespace
}  // namespace regard::test
