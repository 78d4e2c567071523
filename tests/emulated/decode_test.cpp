// The decode kernel for NVIDIA GPUs. Every row that no call reads is NaN, and page tables end after the last
// page or hold -1 there.
#include <gtest/gtest.h>

#include "emulated/device.h"
#include "kernels/support.h"
#include "oracle/oracle.h"

namespace regard::test {
namespace {

Path decode() {
  return {emulated_target(), "portable_decode"};
}

TEST(EmulatedDecode, DenseKeys) {
  expect_all_right(
      {"fwd fp16 lse d=64 b=3 hq=4 hk=2 sq=1 sk=300", "fwd bf16 lse d=128 b=2 hq=8 hk=1 sq=2 sk=77",
       "fwd fp16 lse row_max d=80 dv=40 b=2 hq=3 hk=1 sq=5 sk=130 mask=causal",
       "fwd bf16 lse d=40 dv=112 b=2 hq=2 hk=2 sq=16 sk=40 layout=bhsd mask=causal"},
      decode());
}

TEST(EmulatedDecode, PagesOfEverySize) {
  for (const char* page : {"1", "3", "16", "48", "64"}) {
    const std::string words = std::string(" lse b=5 sk=170 paged=") + page;
    expect_right("fwd fp16 d=64 hq=3 hk=1 sq=3 lengths mask=causal" + words, decode());
    expect_right("fwd bf16 d=128 hq=8 hk=1 sq=1 table=sglang" + words, decode());
    expect_right("fwd fp16 d=96 hq=2 hk=2 sq=7 lengths left_padding mask=window:30,0,sink=4" + words,
                 decode());
  }
}

TEST(EmulatedDecode, EightBits) {
  const std::string words = " lse b=4 hq=6 hk=2 sk=190 lengths";
  expect_all_right({"fwd fp16 d=64 sq=2 paged=7 kv=int8 descale=head" + words,
                    "fwd bf16 d=128 sq=1 paged=16 kv=int8 descale=tensor" + words,
                    "fwd bf16 d=80 dv=72 sq=3 cache=5 kv=int8 descale=head mask=causal" + words},
                   decode());
  expect_all_right(
      {"fwd bf16 d=128 sq=2 paged=16 kv=fp8 descale=head mask=causal" + words,
       "fwd fp16 d=64 sq=1 paged=5 kv=fp8_e5m2" + words, "fwd bf16 d=96 sq=1 cache=6 kv=fp8" + words},
      decode());
}

/// On every kind of GPU.
TEST(EmulatedDecode, PortableDecodes) {
  expect_all_right(
      {"fwd fp16 lse d=64 b=3 hq=6 hk=2 sq=2 sk=90 paged=7 lengths mask=causal",
       "fwd fp16 lse row_max d=128 b=2 hq=8 hk=2 sq=1 sk=190 kv=int8 descale=head paged=16 lengths sink"},
      decode());
}

TEST(EmulatedDecode, Parts) {
  expect_all_right(
      {"fwd bf16 lse d=64 b=3 hq=8 hk=2 sq=1 sk=700 lengths sink",
       "fwd fp16 lse row_max d=64 b=3 hq=6 hk=2 sq=3 sk=500 paged=16 lengths mask=window:150,0,sink=20",
       "fwd bf16 lse d=128 b=2 hq=4 hk=1 sq=2 sk=900 paged=16 lengths kv=int8 descale=head "
       "softcap=3 splits=3"},
      decode());
}

TEST(EmulatedDecode, PackedQueries) {
  const std::string words = " lse b=5 sq=7 tq=20 sk=90 varlen lengths ";
  expect_all_right({"fwd fp16 d=64 hq=3 hk=1 paged=16 mask=causal sink" + words,
                    "fwd bf16 d=64 hq=8 hk=1 cache=6 left_padding mask=causal" + words,
                    "fwd fp16 lse d=64 b=3 hq=6 hk=2 sq=4 sk=90 paged=16 lengths mask=causal ranges"},
                   decode());
}

/// Rows of any alignment, of gaps, of K and V side by side.
TEST(EmulatedDecode, Strides) {
  CaseOptions gaps, beside;
  gaps.padded_rows = true, beside.side_by_side = true;
  const std::string words = " lse b=3 hq=4 hk=2 sq=2 sk=90 lengths d=64 ";
  for (const char* problem : {"fwd fp16 paged=7 layout=bhsd", "fwd bf16 paged=16 kv=int8 descale=head"}) {
    expect_right(problem + words, decode(), gaps);
    expect_right(problem + words, decode(), beside);
  }
}

/// Q beyond fp16, tiny beside huge.
TEST(EmulatedDecode, QueriesBeyondFp16) {
  for (const float factor : {1e30f, 1e-30f, 0.0f}) {
    Case c("fwd bf16 lse d=64 b=1 hq=2 hk=1 sq=1 sk=100 kv=int8 descale=tensor");
    for (std::int64_t i = 0; i < c.count(REGARD_Q); ++i) c.set(REGARD_Q, i, c.get(REGARD_Q, i) * factor);
    c.set(REGARD_DESCALE_K, 0, factor == 0 ? 1 : 1 / factor);
    ASSERT_EQ(run(c, decode()), "");
    const auto expected = oracle::run(c.problem(), c.arguments(), {2, 0, 0});
    ASSERT_TRUE(expected) << expected.error().message;
    EXPECT_EQ(c.mistakes(*expected), "") << factor;
  }
}

}  // namespace
}  // namespace regard::test
