// New tokens in a KV cache, alone and in front of forward, and merged parts, by the portable kernels.
#include <gtest/gtest.h>

#include "emulated/device.h"
#include "kernels/support.h"

namespace regard::test {
namespace {

Path path(const std::string& family = "") {
  return {emulated_target(), family};
}

/// From sm_89 on there are conversions to fp8.
bool converts_to_fp8() {
  return emulated_target() != "sm_75" && emulated_target() != "sm_80";
}

TEST(EmulatedAppend, PortablePutsTokensWhereTheyBelong) {
  expect_all_right({"append fp16 b=4 h=3 sk=64 d=32 cache=5 lengths left_padding snew=3",
                    "append fp16 b=4 h=3 sk=64 d=72 dv=40 paged=7 lengths snew=6 tnew=14",
                    "append fp16 b=4 h=2 sk=64 d=33 paged=16 table=sglang snew=5",
                    "append fp16 b=4 h=2 sk=64 d=64 paged=16 kv_layout=vectorized lengths snew=17",
                    "append fp32 b=4 h=2 sk=64 d=64 paged=16 kv_layout=vectorized lengths snew=17",
                    "append fp32 b=1 h=2 sk=64 d=300 cache=4 slots=int32 tnew=9",
                    "append fp16 b=1 h=9 sk=64 d=64 paged=16 slots=int64 tnew=9 pages=12"},
                   path());
  expect_right("append fp16 b=4 h=2 sk=64 d=64 paged=16 lengths snew=5", path(), {.padded_rows = true});
  // Wider than two octets of each lane; and so many tokens that a lane has two heads of each, and then one.
  expect_right("append fp16 b=2 h=1 sk=64 d=576 dv=512 paged=16 lengths snew=3 rope=half rotary=64", path());
  expect_right("append fp16 b=3 h=3 sk=1024 d=256 paged=16 lengths snew=950 rope=half rotary=64", path());
}

TEST(EmulatedAppend, PortableRotatesKeys) {
  expect_all_right(
      {"append fp16 b=4 h=2 sk=64 d=64 paged=16 lengths snew=3 rope=interleaved rotary=64",
       "append fp16 b=4 h=2 sk=64 d=64 paged=16 lengths snew=3 rope=half rotary=64 rope_type=fp32",
       "append fp16 b=4 h=2 sk=64 d=40 paged=16 lengths snew=3 rope=half rotary=26",
       "append fp16 b=4 h=2 sk=64 d=300 paged=16 lengths snew=3 rope=half rotary=300 positions=sequence "
       "rope_rows=200",
       "append fp16 b=2 h=2 sk=64 d=96 paged=16 lengths snew=3 rope=interleaved rotary=72",
       "append fp32 b=4 h=2 sk=64 d=50 paged=16 lengths snew=3 rope=interleaved rotary=10 positions=token "
       "rope_rows=200",
       "append fp16 b=1 h=2 sk=64 d=64 paged=16 slots=int64 tnew=9 pages=12 rope=half rotary=32 "
       "positions=token"},
      path());
}

TEST(EmulatedAppend, PortableQuantizes) {
  expect_all_right(
      {"append fp16 b=3 h=2 sk=64 d=72 paged=16 lengths snew=3 kv=int8 descale=token",
       "append fp32 b=3 h=2 sk=64 d=300 paged=16 lengths snew=3 kv=int8 descale=token rope=half rotary=64",
       "append fp16 b=2 h=1 sk=64 d=576 dv=512 paged=16 lengths snew=3 kv=int8 descale=token",
       "append fp16 b=3 h=2 sk=64 d=64 paged=16 lengths snew=3 kv=int8 descale=head"},
      path());
  if (!converts_to_fp8()) return;
  expect_all_right(
      {"append fp16 b=3 h=2 sk=64 d=64 paged=16 lengths snew=3 kv=fp8 descale=token rope=half rotary=64",
       "append bf16 b=3 h=2 sk=64 d=64 paged=16 kv_layout=vectorized lengths snew=3 kv=fp8 descale=page",
       "append bf16 b=3 h=2 sk=64 d=40 paged=16 lengths snew=3 kv=fp8_e5m2 descale=tensor",
       "append fp8 b=3 h=2 sk=64 d=40 paged=16 lengths snew=3"},
      path());
}

TEST(EmulatedAppend, PortableIsTheFirstStageOfForward) {
  expect_all_right(
      {"fwd fp16 lse b=4 hq=4 hk=2 sq=3 sk=64 d=64 paged=16 lengths snew=3 mask=causal rope=half rotary=64",
       "fwd fp16 lse b=2 hq=4 hk=1 sq=2 sk=600 d=64 paged=16 lengths snew=2 splits=2 rope=interleaved "
       "rotary=64",
       "fwd fp16 lse b=4 hq=4 hk=2 sq=9 tq=17 varlen sk=64 d=33 cache=5 lengths snew=9 tnew=17 "
       "mask=causal rope=half rotary=32"},
      path());
}

TEST(EmulatedMerge, PortableIsRight) {
  expect_all_right(
      {"merge fp16 lse b=2 h=3 sq=9 d=32 parts=5", "merge fp16 b=1 h=2 sq=7 d=40 parts=1 accumulate",
       "merge fp32 lse b=1 h=2 sq=3 d=160 parts=70", "merge fp16 lse b=1 h=1 sq=3 d=512 parts=2 accumulate",
       "merge fp32 out=fp16 lse b=2 h=2 sq=7 d=111 parts=3 accumulate",
       "merge fp16 lse b=3 h=2 sq=20 tq=41 varlen d=64 parts=4"},
      path());
  expect_right("merge fp16 lse b=2 h=3 sq=9 d=32 parts=5 accumulate", path(), {.padded_rows = true});
}

}  // namespace
}  // namespace regard::test
