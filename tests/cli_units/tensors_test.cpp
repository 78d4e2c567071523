// What the command draws for KV caches and merge is what the library accepts.
#include "cli/tensors.h"

#include <gtest/gtest.h>

namespace regard::cli {
namespace {

const std::string sizes = " b=9 hq=4 hk=2 sk=50 ";

class DrawnInputs : public testing::TestWithParam<const char*> {};

TEST_P(DrawnInputs, PassTheChecks) {
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    const std::string text = GetParam();
    const bool has_columns = text.find(" d=") != std::string::npos;
    const Problem asked(text + (has_columns ? "" : " d=16") + sizes);
    const Sequences sequences = choose_sequences(asked, {}, {}, seed);
    const Problem problem = with_sequences(asked, sequences);
    const Tensors tensors(problem, sequences, {}, false, seed);
    // Nothing was computed: the report names outputs, and none of the inputs is refused.
    EXPECT_NE(check(problem, tensors.arguments()).find("\"outputs\""), std::string::npos);
    EXPECT_GE(flops_of(problem, sequences), 0);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Caches, DrawnInputs,
    testing::Values(
        "fwd bf16 sq=2 paged=7 lengths left_padding mask=causal lse",
        "fwd fp32 sq=2 paged=16 pages=60 table=sglang mask=window:9,0,sink=3 layout=bhsd",
        "fwd bf16 sq=2 paged=16 kv_layout=vectorized kv=int8 descale=token lengths",
        "fwd fp16 varlen sq=5 tq=20 cache=11 kv=fp8 descale=head lengths", "fwd fp16 sq=1 cache=2",
        "fwd fp32 sq=1 left_padding",
        "fwd bf16 varlen sq=4 tq=20 snew=4 tnew=30 paged=4 lengths mask=causal rope=half rotary=8",
        "fwd fp16 sq=1 snew=2 cache=9 rope=interleaved rotary=16 rope_type=fp32 positions=sequence",
        "append bf16 snew=3 tnew=20 table=sglang paged=8 kv=int8 descale=token",
        "append bf16 snew=2 lengths rope=half rotary=4 positions=token",
        "append fp32 tnew=11 slots=int64 paged=4", "append fp16 tnew=11 slots=int32 cache=3"));

INSTANTIATE_TEST_SUITE_P(
    LatentCaches, DrawnInputs,
    testing::Values("fwd bf16 sq=2 paged=7 lengths kv=fp8 descale=columns latent k_rope d=144 dv=128",
                    "append fp16 snew=2 lengths kv=int8 descale=columns latent k_rope d=144 dv=128"));

INSTANTIATE_TEST_SUITE_P(Merges, DrawnInputs, testing::Values("merge bf16 sq=7 parts=3 lse"));

TEST(DrawnCache, IsRefusedWhereNewTokensWouldShareRows) {
  const Problem problem("append bf16 snew=2 paged=8 pages=3 lengths d=16" + sizes);
  EXPECT_ANY_THROW(choose_sequences(problem, {}, {}, 1));
}

}  // namespace
}  // namespace regard::cli
