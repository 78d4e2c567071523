// Masks that are functions: the stage that writes their bits is compiled for each, and the portable kernels
// and Hopper's read them.
#include <gtest/gtest.h>

#include "emulated/device.h"
#include "kernels/support.h"
#include "support/random_mask.h"

namespace regard::test {
namespace {

Path path(const std::string& family = "") {
  return {.target = emulated_target(), .family = family, .functions = "bits"};
}

TEST(EmulatedFunctions, PortableReadsTheirBits) {
  expect_all_right({"fwd fp16 lse d=64 b=2 hq=4 hk=2 sq=70 sk=300 keep=doc[b,q]==doc[b,kv]&&kv<=p "
                    "tensors=doc:int32[2]"},
                   path("portable_forward"));
  expect_all_right({"bwd fp16 d=64 b=2 h=2 sq=70 sk=90 keep=(kv*40503+q)%7<3||kv==q"},
                   path("portable_backward"));
}

/// Rows, warps and blocks that see nothing; ranges of each sequence and of all; more rows than a block
/// writes.
TEST(EmulatedFunctions, AsRanges) {
  Path ranges = path();
  ranges.functions = "ranges";
  std::vector<std::string> problems = {
      "fwd fp16 lse d=64 b=2 hq=4 hk=2 sq=150 sk=200 keep=kv<=p||kv<past[b] tensors=past:int32[1]",
      "fwd fp16 lse d=64 b=3 h=2 sq=20 sk=90 tq=50 tk=200 varlen lengths keep=kv>=first[q]&&kv<=p+2 "
      "score=s-slope[h]*abs(kv-p) tensors=first:int32[1],slope:fp32[1]",
      "bwd fp16 d=64 b=2 h=2 sq=70 sk=90 keep=kv//16==q//16&&x[q]<0.5 tensors=x:fp32[1]"};
  if (emulated_target() == "sm_90a") {
    problems.emplace_back("bwd bf16 d=128 b=1 h=2 s=200 keep=abs(q-kv)<w[q] tensors=w:int32[1]");
    // Tiles that no row sees, and rows and keys that see and are seen by none.
    problems.emplace_back("bwd bf16 d=64 b=2 hq=4 hk=2 sq=500 sk=400 keep=kv//70==q//70&&q//128!=1");
    problems.emplace_back("bwd bf16 d=192 dv=128 b=2 h=1 sq=300 sk=200 keep=kv//70==q//70&&q//128!=1");
  }
  expect_all_right(problems, ranges);
}

/// Tiles that are whole, mixed and unseen; rows, warps, warpgroups and blocks that see nothing, at first or
/// at all; rows that are redone.
TEST(EmulatedFunctions, HopperSkipsTiles) {
  if (emulated_target() != "sm_90a") GTEST_SKIP() << "a kernel of sm_90a";
  expect_all_right({"fwd bf16 lse d=64 b=2 h=2 s=600 keep=q//90==kv//90&&kv<=q",
                    "fwd bf16 lse d=128 b=1 h=2 sq=500 sk=700 keep=(kv<300||kv>q+100)&&q//16!=3",
                    "fwd bf16 lse d=256 b=1 h=2 sq=300 sk=400 keep=abs(q//64-kv//64)<2&&abs(q%64-kv%64)<7",
                    "fwd fp16 lse d=64 b=2 hq=8 hk=2 sq=40 sk=500 keep=(kv+h)//100%2==0&&q!=7",
                    "fwd bf16 lse d=128 b=2 h=2 s=300 keep=q//90==kv//90 scale=60",
                    "fwd bf16 lse d=128 b=1 h=3 s=400 batch_invariant keep=q//70<=kv//70&&q//128!=1 "
                    "bias=alibi",
                    "fwd bf16 lse d=64 b=1 h=2 s=300 keep=q//70<=kv//70&&q//128!=1 dropout=0.3"},
                   path("sm90_forward"));
}

/// The same backward, along a block's tiles of queries, which some blocks see none of. At d = 192 a pair of
/// warpgroups adds dQ through shared memory, at d = 256 from registers.
TEST(EmulatedFunctions, HopperSkipsTilesBackward) {
  if (emulated_target() != "sm_90a") GTEST_SKIP() << "a kernel of sm_90a";
  const Path hopper = path("sm90_backward");
  expect_all_right(
      {"bwd bf16 d=64 b=1 h=2 s=500 keep=doc[b,q]==doc[b,kv] tensors=doc:int32[2]",
       "bwd bf16 d=128 b=1 hq=4 hk=2 sq=330 sk=300 keep=q//100==kv//90&&(kv+h)//64%3!=1&&q//64!=2",
       "bwd fp16 d=128 b=1 h=1 sq=200 sk=260 keep=(kv*40503+q)%7<3&&kv//128!=1",
       "bwd bf16 d=128 b=2 h=1 sq=200 sk=300 tq=330 tk=500 varlen keep=q//70<=kv//90&&kv<=p",
       "bwd bf16 d=64 b=2 h=1 sq=300 sk=200 lengths softcap=20 keep=q//80==kv//64",
       "bwd bf16 d=64 b=1 h=1 s=300 dropout=0.3 keep=q//70==kv//70",
       "bwd bf16 d=64 b=1 h=1 s=300 bias=alibi keep=q//70==kv//70"},
      hopper);
  expect_all_right({"bwd bf16 d=192 dv=128 b=1 h=1 s=260 keep=q//90==kv//90&&q//64!=2",
                    "bwd bf16 d=256 b=1 h=1 s=260 keep=q//90==kv//90&&q//64!=2"},
                   hopper);
}

/// Blocks of keys that take turns at dQ visit all tiles; so do those of bits from the caller.
TEST(EmulatedFunctions, HopperVisitsAllTilesInTurns) {
  if (emulated_target() != "sm_90a") GTEST_SKIP() << "a kernel of sm_90a";
  expect_all_right({"bwd bf16 d=64 b=1 h=2 s=300 deterministic keep=q//70==kv//70",
                    "bwd bf16 d=256 b=1 h=1 sq=100 sk=200 deterministic keep=q//70==kv//70"},
                   path("sm90_backward"));
}

/// More tiles than a block has bits for: each is for two, of which one or both are seen, or whole.
TEST(EmulatedFunctions, HopperSkipsManyTilesBackward) {
  if (emulated_target() != "sm_90a") GTEST_SKIP() << "a kernel of sm_90a";
  expect_right("bwd bf16 d=8 b=1 h=1 sq=33000 sk=20 softcap=30 keep=q//64%64<5&&(q//64%64<3||kv>q%16)",
               path("sm90_backward"));
}

/// Tiles that are seen whole, in part and not at all.
TEST(EmulatedFunctions, OfWholeTiles) {
  expect_all_right(
      {"bwd bf16 d=64 b=1 hq=2 hk=1 sq=300 sk=250 keep=(q//128+kv//64)%3!=0||q//128==1&&kv%7==0"}, path());
}

TEST(EmulatedFunctions, BesideOtherWords) {
  expect_all_right(
      {"fwd fp16 lse d=64 b=3 hq=4 hk=2 sq=3 sk=90 paged=16 lengths keep=m[h,kv]&&kv!=q tensors=m:bool[2]",
       "fwd fp16 lse d=64 b=3 h=2 sq=20 sk=90 tq=50 tk=200 varlen lengths keep=tq!=tk&&kv<=p+2 "
       "score=s-slope[h]*abs(kv-p) tensors=slope:fp32[1]",
       "fwd fp16 lse d=64 b=3 hq=4 hk=2 sq=3 sk=70 cache=4 lengths snew=1 left_padding keep=kv!=p-1",
       "bwd fp16 d=64 b=2 h=2 sq=20 sk=40 mask=causal keep=kv//8!=q//8 score=3.0*tanh(s/3.0)",
       "bwd fp16 d=64 b=2 h=2 sq=20 sk=40 dropout=0.3 sink keep=where(h==1,q<9,m[b,0,q,kv]) "
       "tensors=m:bool[4]"},
      path());
}

/// Tiles that no row sees, that all rows see, and others; a sequence, a head, and rows without a key.
TEST(EmulatedFunctions, TilesAreSkipped) {
  expect_all_right(
      {"fwd fp16 lse d=64 b=2 h=2 sq=200 sk=600 keep=((kv//64+q//64)%3==0||kv//128==q//100)&&h!=1",
       "fwd fp16 lse d=128 b=2 h=1 sq=130 sk=520 mask=window:300,0,sink=70 keep=kv//100!=q//60&&b!=1",
       "fwd fp16 lse d=64 b=2 h=1 sq=90 sk=400 splits=2 ranges lengths keep=kv//64!=2&&q!=3",
       "bwd fp16 d=64 b=2 h=2 sq=300 sk=200 keep=(kv//64+q//64)%3==h&&q!=130&&b!=1",
       "bwd fp16 d=64 b=1 hq=4 hk=2 sq=200 sk=200 deterministic mask=causal keep=q//128==kv//128",
       "bwd fp16 d=64 b=1 h=1 sq=200 sk=200 ranges keep=kv//64==q//64||kv<3"},
      path());
}

TEST(EmulatedFunctions, OfRealNumbers) {
  expect_all_right({"fwd fp16 lse d=64 b=2 h=2 sq=9 sk=70 "
                    "keep=float(kv)*w[kv]<sqrt(float(q))+cos(float(kv))&&exp(-float(q))<pow(1.5,float(h)) "
                    "tensors=w:fp32[1]"},
                   path());
}

TEST(EmulatedFunctions, AtRandom) {
  for (unsigned seed = 200; seed < 212; ++seed)
    expect_right("fwd fp16 b=1 h=2 sq=130 sk=200 d=16 lse keep=(" + RandomMask(seed).condition(3) +
                     "||kv==q)&&(doc[0]==7||m[0,0]||kv>=0) tensors=doc:int32[1],m:bool[2]",
                 path());
}

}  // namespace
}  // namespace regard::test
