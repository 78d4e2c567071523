// For each rule: a refused problem with the words of the refusal, and a similar problem that is accepted.
#include <gmock/gmock.h>

#include "problem/problem.h"

namespace regard {
namespace {

using ::testing::HasSubstr;

struct Case {
  const char* refused;
  const char* message;
  const char* accepted;
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << c.refused;
}

class Validate : public ::testing::TestWithParam<Case> {};

TEST_P(Validate, RefusesAndAcceptsTheNeighbour) {
  const Case& c = GetParam();
  const Result<Problem> bad = parse(c.refused);
  ASSERT_TRUE(bad) << bad.error().message;
  const Status refusal = validate(*bad);
  ASSERT_FALSE(refusal) << c.refused;
  EXPECT_EQ(refusal.error().kind, ErrorKind::invalid);
  EXPECT_THAT(refusal.error().message, HasSubstr(c.message)) << c.refused;
  const Result<Problem> good = parse(c.accepted);
  ASSERT_TRUE(good) << good.error().message;
  const Status accepted = validate(*good);
  EXPECT_TRUE(accepted) << c.accepted << ": " << accepted.error().message;
}

constexpr Case sizes[] = {
    {"fwd b=-1 h=1 s=8 d=64", "b=-1 is too small; b is at least 0", "fwd b=0 h=1 s=8 d=64"},
    {"fwd hq=0 hk=1 s=8 d=64", "hq=0 is too small", "fwd hq=1 hk=1 s=8 d=64"},
    {"fwd hq=1 hk=0 s=8 d=64", "hk=0 is too small", "fwd hq=1 hk=1 s=8 d=64"},
    {"fwd sq=-1 sk=8 d=64", "sq=-1 is too small", "fwd sq=0 sk=8 d=64"},
    {"fwd sq=8 sk=-1 d=64", "sk=-1 is too small", "fwd sq=8 sk=0 d=64"},
    {"fwd s=8 d=0 dv=64", "d is missing; give the head dimension, such as d=64", "fwd s=8 d=1 dv=64"},
    {"fwd s=8", "d is missing; give the head dimension, such as d=64", "fwd s=8 d=1"},
    {"fwd s=8 d=64 dv=0", "dv=0 is too small", "fwd s=8 d=64 dv=1"},
    {"fwd s=8 d=64 splits=-1", "splits=-1 is too small", "fwd s=8 d=64 splits=auto"},
    {"fwd s=8 d=64 mask=window:-2,0", "window left=-2 is too small", "fwd s=8 d=64 mask=window:-1,0"},
    {"fwd s=8 d=64 mask=window:0,-2", "window right=-2 is too small", "fwd s=8 d=64 mask=window:0,-1"},
    {"fwd s=8 d=64 mask=window:0,0,sink=-1", "sink=-1 is too small", "fwd s=8 d=64 mask=window:0,0,sink=0"},
    {"fwd s=8 d=64 mask=window:0,9223372036854775807",
     "is too large; window right is at most 2^61, or -1 for unbounded",
     "fwd s=8 d=64 mask=window:0,2147483647"},
    {"fwd b=2305843009213693953 s=8 d=64", "is too large; b is at most 2^61", "fwd b=1 s=8 d=64"},
    {"fwd s=8 d=513", "d=513 dv=513 is too large", "fwd s=8 d=512"},
    {"fwd s=8 d=576 dv=576", "d=576 with dv=512", "fwd s=8 d=576 dv=512"},
    {"fwd s=8 d=512 dv=576", "is too large", "fwd s=8 d=576 dv=512"},
    {"fwd hq=6 hk=4 s=8 d=64", "hq=6 is not a multiple of hk=4", "fwd hq=6 hk=3 s=8 d=64"},
    {"fwd hq=2 hk=4 s=8 d=64", "hq=2 is not a multiple of hk=4", "fwd hq=4 hk=4 s=8 d=64"},
    {"fwd b=4294967296 h=64 s=67108864 d=128", "more than 2^63 bytes", "fwd b=1 h=64 s=67108864 d=128"},
    {"fwd b=2305843009213693952 s=8 d=64", "more than 2^63 bytes", "fwd b=1048576 s=8 d=64"},
    {"fwd b=2305843009213693952 s=2305843009213693952 d=1 fp8", "more than 2^63 bytes",
     "fwd b=1 s=8 d=1 fp8"},
    {"fwd b=65536 h=4096 s=262144 d=1 bias=bh", "'bias' of this problem has more than 2^63 bytes",
     "fwd b=65536 h=4096 s=262144 d=1 bias=11"},
};
INSTANTIATE_TEST_SUITE_P(Sizes, Validate, ::testing::ValuesIn(sizes));

constexpr Case dtypes[] = {
    {"fwd bf16 s=8 d=64 out=fp32", "out=fp32 does not go with bf16 inputs", "fwd fp8 s=8 d=64 out=fp32"},
    {"fwd fp32 s=8 d=64 out=bf16", "out=bf16 does not go with fp32 inputs", "fwd fp32 s=8 d=64 out=fp32"},
    {"fwd fp8 s=8 d=64 out=fp8_e5m2", "out=fp8_e5m2 does not go with fp8 inputs", "fwd fp8 s=8 d=64 out=fp8"},
    {"bwd fp8 s=8 d=64", "bwd does not take fp8; backward is bf16, fp16 or fp32", "bwd bf16 s=8 d=64"},
    {"bwd e5m2 s=8 d=64", "bwd does not take fp8_e5m2", "fwd e5m2 s=8 d=64"},
    {"fwd fp8_fnuz s=8 d=64 out=fp8", "out=fp8 does not go with fp8_fnuz inputs",
     "fwd fp8_fnuz s=8 d=64 out=fp8_fnuz descale=head"},
    {"bwd e5m2fnuz s=8 d=64", "bwd does not take fp8_e5m2_fnuz", "fwd e5m2fnuz s=8 d=64"},
    {"fwd bf16 s=8 d=64 descale=tensor", "descale=tensor needs fwd with 8-bit inputs",
     "fwd fp8 s=8 d=64 descale=tensor"},
    {"append fp8 s=8 d=64 snew=1 descale=head", "descale=head needs fwd", "fwd fp8 s=8 d=64 descale=head"},
};
INSTANTIATE_TEST_SUITE_P(DTypes, Validate, ::testing::ValuesIn(dtypes));

constexpr Case features[] = {
    {"fwd s=8 d=64 mask=causal window_left=3", "window numbers need a window",
     "fwd s=8 d=64 mask=window:3,0"},
    {"fwd s=8 d=64 window_right=3", "mask=none takes none", "fwd s=8 d=64 mask=window:-1,3"},
    {"fwd s=8 d=64 mask=causal sink_tokens=4", "sink_tokens=4 needs a window",
     "fwd s=8 d=64 mask=window:3,0,sink=4"},
    {"fwd s=8 d=64 softcap=-1", "softcap=-1 is not a cap", "fwd s=8 d=64 softcap=30 bias=alibi"},
    {"fwd s=8 d=64 softcap=1e-19", "softcap=1e-19 is not a cap", "fwd s=8 d=64 softcap=1e-18"},
    {"fwd s=8 d=64 softcap=1e39", "between 1e-18 and 1e18", "fwd s=8 d=64 softcap=1e18"},
    {"fwd s=8 d=64 scale=1e39", "scale=1e+39 is not between -1e18 and 1e18", "fwd s=8 d=64 scale=1e18"},
    {"fwd s=8 d=64 scale=-1e19", "leave it out for 1/sqrt(d)", "fwd s=8 d=64 scale=0"},
    {"fwd s=8 d=64 dropout=1", "dropout=1 is outside [0, 1)", "fwd s=8 d=64 dropout=0.99"},
    {"fwd s=8 d=64 dropout=-0.1", "dropout=-0.1 is outside [0, 1)", "fwd s=8 d=64 dropout=0"},
    {"fwd s=8 d=64 dropout=1e-7", "dropout=1e-07 is finer than a dropout mask",
     "fwd s=8 d=64 dropout=0.00390625"},
    {"fwd s=8 d=64 dropout=0.997", "from 1/256 to 255/256", "fwd s=8 d=64 dropout=0.99609375"},
    {"fwd s=8 d=64 keep_scale=1.2", "keep_scale=1.2 needs dropout",
     "fwd s=8 d=64 keep_scale=1.2 dropout=0.1"},
    {"bwd s=8 d=64 dropout=0.1 keep_scale=0", "keep_scale=0 is not above 0",
     "bwd s=8 d=64 dropout=0.1 keep_scale=1"},
    {"fwd s=8 d=64 dropout=0.1 keep_scale=-1", "keep_scale=-1 is not above 0", "fwd s=8 d=64 dropout=0.1"},
    {"fwd s=8 d=64 dropout=0.1 keep_scale=1e19", "at most 1e18", "fwd s=8 d=64 dropout=0.1 keep_scale=1e18"},
    {"fwd s=8 d=64 dropout_mask", "dropout_mask needs dropout", "fwd s=8 d=64 dropout=0.1 dropout_mask"},
    {"bwd s=8 d=64 dropout=0.1 dropout_mask", "dropout_mask needs fwd", "bwd s=8 d=64 dropout=0.1"},
    {"fwd s=8 d=64 bias=bh bias_type=fp16", "with them a bias is bf16 or fp32",
     "fwd s=8 d=64 bias=bh bias_type=fp32"},
    {"fwd fp32 s=8 d=64 bias=bh bias_type=bf16", "bias_type=bf16 does not go with fp32 inputs",
     "fwd fp32 s=8 d=64 bias=bh bias_type=fp32"},
    {"fwd fp8 s=8 d=64 bias=bh bias_type=bf16", "with them a bias is fp32",
     "fwd fp8 s=8 d=64 bias=bh bias_type=fp32"},
    {"fwd s=8 d=64 bias_type=fp32", "needs an elementwise bias", "fwd s=8 d=64 bias=11 bias_type=fp32"},
    {"fwd s=8 d=64 bias=alibi bias_type=fp32", "slopes of ALiBi are always fp32",
     "fwd s=8 d=64 bias=alibi bias_type=bf16"},
    {"fwd s=8 d=64 bias=bh dbias", "dbias needs bwd", "bwd s=8 d=64 bias=bh dbias"},
    {"bwd s=8 d=64 dbias", "dbias needs an elementwise bias", "bwd s=8 d=64 bias=11 dbias softcap=30"},
    {"bwd s=8 d=64 bias=alibi dbias", "ALiBi slopes have no gradient", "bwd s=8 d=64 bias=alibi"},
    {"bwd s=8 d=64 lse", "lse does not go with bwd", "fwd s=8 d=64 lse"},
    {"bwd s=8 d=64 batch_invariant", "batch_invariant does not go with bwd", "fwd s=8 d=64 batch_invariant"},
    {"bwd s=8 d=64 splits=2", "splits=2 does not go with bwd", "fwd s=8 d=64 splits=2"},
    {"fwd s=8 d=64 splits=129", "splits=129 is too many", "fwd s=8 d=64 splits=128"},
    {"fwd s=8 d=64 splits=2 batch_invariant", "does not go with batch_invariant",
     "fwd s=8 d=64 splits=1 batch_invariant"},
};
INSTANTIATE_TEST_SUITE_P(Features, Validate, ::testing::ValuesIn(features));

constexpr Case sequences[] = {
    {"fwd s=8 d=64 tq=4", "tq=4 needs varlen", "fwd s=8 d=64 varlen tq=4"},
    {"fwd s=8 d=64 tk=4", "tk=4 needs varlen", "fwd s=8 d=64 varlen tk=4"},
    {"fwd s=8 d=64 varlen tq=-1", "tq=-1 is too small", "fwd s=8 d=64 varlen tq=1"},
    {"fwd s=8 d=64 varlen layout=bhsd", "layout=bhsd does not go with varlen", "fwd s=8 d=64 layout=bhsd"},
    {"fwd s=8 d=64 varlen tq=2147483648", "2147483648 query rows are too many for varlen",
     "fwd s=8 d=64 varlen tq=2147483647"},
    {"fwd sq=8 sk=2147483648 d=64 lengths", "2147483648 key rows are too many for lengths",
     "fwd sq=8 sk=2147483648 d=64"},
    {"fwd sq=8 sk=2147483648 d=64 ranges", "are too many for ranges", "fwd sq=8 sk=2147483647 d=64 ranges"},
};
INSTANTIATE_TEST_SUITE_P(Sequences, Validate, ::testing::ValuesIn(sequences));

constexpr Case caches[] = {
    {"fwd s=64 d=64 paged=24", "paged=24 is not a power of two", "fwd s=64 d=64 paged=1"},
    {"bwd s=64 d=64 paged=16", "paged=16 does not go with bwd", "append s=64 d=64 snew=1 paged=16"},
    {"fwd s=64 d=64 table=sglang", "table=sglang needs a paged cache", "fwd s=64 d=64 paged=16 table=sglang"},
    {"fwd s=64 d=64 kv_layout=vectorized", "kv_layout=vectorized needs a paged cache",
     "fwd s=64 d=64 paged=16 kv_layout=vectorized"},
    {"fwd s=64 d=64 paged=4 kv_layout=vectorized", "paged=4 is not a multiple of 8",
     "fwd s=64 d=64 paged=8 kv_layout=vectorized"},
    {"fwd s=64 d=60 paged=8 kv_layout=vectorized", "d=60 is not a multiple of 8", "fwd s=64 d=60 paged=8"},
    {"fwd fp8 s=64 d=64 dv=40 paged=16 kv_layout=vectorized", "dv=40 is not a multiple of 16",
     "fwd fp8 s=64 d=64 dv=48 paged=16 kv_layout=vectorized"},
    {"append s=64 d=64", "snew=0 new tokens do not fit", "append s=64 d=64 snew=1"},
    {"append s=64 d=64 snew=65", "snew=65 new tokens do not fit; append writes 1 to sk=64",
     "append s=64 d=64 snew=64"},
    {"bwd s=64 d=64 snew=1", "snew=1 needs append or fwd", "fwd s=64 d=64 snew=1"},
    {"fwd s=64 d=64 snew=65", "snew=65 new tokens do not fit", "fwd s=64 d=64 snew=64"},
    {"append s=64 d=64 snew=1 varlen", "varlen does not go with snew=1", "append s=64 d=64 snew=1 lengths"},
    {"fwd s=64 d=64 snew=1 varlen", "varlen does not go with snew=1",
     "fwd s=64 d=64 snew=1 lengths softcap=3"},
    {"fwd s=64 d=64 cache=8", "cache=8 needs append, or fwd with new tokens", "fwd s=64 d=64 snew=1 cache=8"},
    {"append s=64 d=64 snew=1 cache=8 paged=16", "cache=8 does not go with paged=16",
     "append s=64 d=64 snew=1 paged=16"},
    {"fwd s=64 d=64 snew=1 cache=-1", "cache=-1 is too small", "fwd s=64 d=64 snew=1 cache=1"},
    {"append s=64 d=64 snew=1 paged=16 table=sglang", "table=sglang does not go with snew=1",
     "append s=64 d=64 snew=1 paged=16 table=vllm"},
    {"fwd s=64 d=64 pages=8", "pages=8 needs a paged cache", "fwd s=64 d=64 paged=16 pages=8"},
    {"fwd s=64 d=64 paged=1 pages=2147483648", "2147483648 pages are too many",
     "fwd s=64 d=64 paged=1 pages=2147483647"},
    {"fwd b=2 s=2147483647 d=8 paged=1", "4294967294 pages are too many", "fwd b=2 s=2147483647 d=8 paged=4"},
    {"append s=64 d=64 snew=1 softcap=3", "softcap does not go with append", "append s=64 d=64 snew=1"},
    {"append s=64 d=64 snew=1 sink", "sink does not go with append", "append s=64 d=64 snew=1"},
    {"append s=64 d=64 snew=1 bias=alibi", "bias does not go with append", "append s=64 d=64 snew=1"},
    {"append s=64 d=64 snew=1 dropout=0.5", "dropout does not go with append", "append s=64 d=64 snew=1"},
    {"append s=64 d=64 snew=1 bits", "bits does not go with append", "append s=64 d=64 snew=1"},
    {"append s=64 d=64 snew=1 ranges", "ranges does not go with append", "append s=64 d=64 snew=1"},
    {"append s=64 d=64 snew=1 scale=2", "scale does not go with append", "append s=64 d=64 snew=1"},
    {"fwd s=64 d=64 rope=half rotary=32", "rope=half needs append",
     "fwd s=64 d=64 snew=1 rope=half rotary=32"},
    {"append s=64 d=64 snew=1 rotary=32", "rotary=32 needs rope",
     "append s=64 d=64 snew=1 rope=interleaved rotary=32"},
    {"append s=64 d=64 snew=1 rope=half", "rotary=0 is not a multiple of 16",
     "append s=64 d=64 snew=1 rope=half rotary=16"},
    {"append s=64 d=64 snew=1 rope=half rotary=24", "rotary=24 is not a multiple of 16",
     "append s=64 d=64 snew=1 rope=half rotary=48"},
    {"append s=64 d=64 snew=1 rope=half rotary=80", "rotary=80 is not a multiple of 16 between 16 and d=64",
     "append s=64 d=64 snew=1 rope=half rotary=64"},
    {"append fp8 s=64 d=64 snew=1 rope=half rotary=32", "rope=half does not go with fp8",
     "append fp8 s=64 d=64 snew=1"},
};
INSTANTIATE_TEST_SUITE_P(Caches, Validate, ::testing::ValuesIn(caches));

TEST(ValidateNumbers, RefusesWhatTextCannotSay) {
  Problem problem = *parse("fwd s=8 d=64");
  problem.dropout = NAN;
  EXPECT_FALSE(validate(problem));
  problem.dropout = 0;
  problem.softcap = INFINITY;
  EXPECT_FALSE(validate(problem));
  problem.softcap = NAN;
  EXPECT_FALSE(validate(problem));
  problem.softcap = 0;
  problem.scale = NAN;
  EXPECT_FALSE(validate(problem));
  problem.scale = -2.0;
  EXPECT_TRUE(validate(problem));
}

TEST(ValidateEverything, DesignExamplesAreValid) {
  for (const char* text : {
           "fwd bf16 b=2 hq=16 hk=4 sq=1024 sk=1024 d=128 mask=causal",
           "bwd fp16 b=1 h=8 s=2048 d=64 mask=window:128,0 dropout=0.1 deterministic",
           "fwd fp8 b=4 hq=32 hk=8 sq=1 sk=32768 d=128 paged=16 splits=auto lse",
           "fwd fp32 b=3 h=4 s=65536 d=64 varlen lengths ranges bits bias=bh sink lse",
           "bwd bf16 b=3 h=4 s=100 d=111 dv=59 mask=window:3,4,top_left,sink=2 softcap=50 sink dropout=0.5",
       }) {
    const Status status = validate(*parse(text));
    EXPECT_TRUE(status) << text << ": " << status.error().message;
  }
}

}  // namespace
}  // namespace regard
