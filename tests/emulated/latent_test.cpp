// The portable forward kernel where V is the first columns of K: in a tile of its own for head dims 576/512,
// and beside K for smaller ones. Every row that no call reads is NaN.
#include <gtest/gtest.h>

#include "emulated/device.h"
#include "kernels/support.h"

namespace regard::test {
namespace {

Path portable() {
  return {emulated_target(), "portable_forward"};
}

/// On every kind of GPU.
TEST(EmulatedLatent, PortableReadsATileAsKAndV) {
  expect_right("fwd fp16 lse latent d=576 dv=512 b=4 hq=16 hk=1 sq=2 sk=70 paged=16 lengths mask=causal",
               portable());
}

TEST(EmulatedLatent, AbsorbedDecode) {
  const std::string sizes = "fwd fp16 lse latent d=576 dv=512 hk=1 lengths ";
  expect_all_right(
      {sizes + "b=3 hq=16 sq=1 sk=130 paged=64 k_rope", sizes + "b=2 hq=5 sq=4 sk=90 paged=7 mask=causal",
       sizes + "b=2 hq=3 sq=1 sk=140 cache=3 splits=2 sink",
       sizes + "b=3 hq=4 sq=9 tq=20 varlen sk=70 paged=1 left_padding mask=window:40,0,sink=2 k_rope",
       sizes + "b=2 hq=4 sq=2 sk=40 paged=16 kv=int8 descale=tensor k_rope softcap=3"},
      portable());
}

/// sm_80 converts int8 alone.
TEST(EmulatedLatent, FactorsOfColumns) {
  const std::string words = " lse latent k_rope descale=columns hk=1 ";
  expect_all_right(
      {"fwd fp16 kv=int8 d=576 dv=512 b=3 hq=16 sq=1 sk=70 paged=16 lengths" + words,
       "fwd fp16 kv=int8 d=576 dv=512 b=2 hq=5 sq=2 sk=70 paged=1 lengths mask=causal splits=2" + words,
       "fwd bf16 kv=int8 d=192 dv=128 b=3 hq=8 sq=2 sk=90 paged=64 lengths mask=causal" + words},
      portable());
  expect_right("fwd fp16 kv=int8 d=139 dv=128 b=2 hq=4 sq=2 sk=70 cache=3 lengths" + words, portable(),
               {.padded_rows = true});
  expect_all_right(
      {"append fp16 kv=int8 d=192 dv=128 b=4 sk=64 paged=16 lengths snew=3 rope=interleaved rotary=32 latent "
       "k_rope descale=columns hk=1",
       "append bf16 kv=int8 d=576 dv=512 b=2 sk=64 cache=3 snew=2 latent k_rope descale=columns h=2"},
      {emulated_target(), "append"});
}

TEST(EmulatedLatent, NoCache) {
  expect_all_right({"fwd fp16 lse latent d=576 dv=512 b=2 hq=4 hk=1 sq=5 sk=40 mask=causal",
                    "fwd fp16 lse latent d=576 dv=512 b=2 hq=2 hk=2 sq=3 tq=5 sk=40 tk=60 varlen k_rope"},
                   portable());
}

/// Dimensions whose tiles have room for V; rows of any alignment.
TEST(EmulatedLatent, SmallerHeadDims) {
  for (const char* parts : {"", " k_rope"})
    for (const char* problem :
         {"fwd fp16 lse latent d=96 dv=64 b=3 hq=8 hk=1 sq=2 sk=90 paged=16 lengths mask=causal",
          "fwd fp16 lse latent d=41 dv=23 b=3 hq=4 hk=1 sq=2 sk=70 paged=7 lengths",
          "fwd fp16 lse latent d=96 dv=64 b=3 hq=4 hk=1 sq=2 sk=70 cache=4 kv=int8 "
          "descale=token lengths"})
      expect_right(std::string(problem) + parts, portable());
}

TEST(EmulatedLatent, HopperLoadsVBesideK) {
  if (emulated_target() != "sm_90a") GTEST_SKIP() << "a kernel of sm_90a";
  const Path hopper{"sm_90a", "sm90_forward"};
  expect_right("fwd fp16 lse latent d=96 dv=64 b=2 hq=4 hk=1 sq=70 sk=130 paged=64 lengths mask=causal",
               hopper);
  expect_right("fwd fp16 lse latent d=128 dv=64 b=2 h=2 s=150 mask=causal", hopper);
}

Path hopper_latent() {
  return {"sm_90a", "sm90_latent"};
}

/// Two warpgroups, each with half of V's columns; K in one tensor and in its two parts. Large scores rescale
/// O.
TEST(EmulatedLatent, HopperSharesATileOfK) {
  if (emulated_target() != "sm_90a") GTEST_SKIP() << "a kernel of sm_90a";
  const std::string sizes = " lse latent d=576 dv=512 hk=1 ";
  expect_all_right({"fwd fp16 b=3 hq=16 sq=1 sk=200 paged=64 lengths scale=0.5" + sizes,
                    "fwd fp16 b=2 hq=128 sq=2 sk=140 paged=16 lengths mask=causal k_rope" + sizes,
                    "fwd bf16 b=3 hq=5 sq=4 sk=150 paged=48 table=sglang softcap=3 sink" + sizes},
                   hopper_latent());
}

TEST(EmulatedLatent, HopperSplitsAndWindows) {
  if (emulated_target() != "sm_90a") GTEST_SKIP() << "a kernel of sm_90a";
  const std::string sizes = " lse latent d=576 dv=512 hk=1 ";
  expect_all_right(
      {"fwd fp16 b=2 hq=3 sq=1 sk=400 cache=3 lengths splits=2 sink k_rope" + sizes,
       "fwd fp16 b=3 hq=4 sq=9 tq=20 varlen sk=300 paged=32 lengths mask=window:40,0,sink=2" + sizes},
      hopper_latent());
}

/// Without a cache: sequences that fill their tensors, and packed ones.
TEST(EmulatedLatent, HopperWithoutACache) {
  if (emulated_target() != "sm_90a") GTEST_SKIP() << "a kernel of sm_90a";
  expect_all_right({"fwd bf16 lse latent d=576 dv=512 b=1 h=2 s=150 mask=causal",
                    "fwd fp16 lse latent d=576 dv=512 b=2 hq=2 hk=1 sq=3 tq=5 sk=90 tk=130 varlen k_rope"},
                   hopper_latent());
}

TEST(EmulatedLatent, NewTokens) {
  for (const char* parts : {"", " k_rope"}) {
    expect_right(
        std::string("append fp16 b=4 hk=1 latent d=96 dv=64 sk=64 paged=16 lengths snew=3 rope=interleaved "
                    "rotary=32") +
            parts,
        {emulated_target(), "append"});
    expect_right(
        std::string(
            "append fp16 b=4 hk=1 latent d=41 dv=23 sk=64 paged=16 lengths snew=3 rope=half rotary=14 "
            "kv=int8 descale=tensor") +
            parts,
        {emulated_target(), "append"});
    expect_right(
        std::string("fwd fp16 b=2 hq=3 hk=1 sq=2 latent d=41 dv=23 sk=40 cache=3 lengths snew=2 rope=half "
                    "rotary=14 mask=causal lse") +
            parts,
        portable());
  }
}

}  // namespace
}  // namespace regard::test
