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
    {"fwd bf16 s=8 d=64 descale=tensor", "descale=tensor needs 8-bit K and V, such as kv=fp8",
     "fwd fp8 s=8 d=64 descale=tensor"},
    {"bwd bf16 s=8 d=64 descale=tensor", "descale=tensor does not go with bwd, which takes no 8-bit tensors",
     "fwd bf16 s=8 d=64 kv=fp8_e5m2 descale=tensor"},
    {"append fp8 s=8 d=64 snew=1 descale=head",
     "descale=head does not go with new tokens of fp8, which are copied and not quantised; give bf16, fp16 "
     "or "
     "fp32 tokens and kv=fp8, or leave descale out",
     "append bf16 s=8 d=64 snew=1 kv=fp8 descale=head"},
    {"fwd fp8 s=8 d=64 snew=1 descale=token",
     "descale=token does not go with new tokens of fp8, which are copied and not quantised; give bf16, fp16 "
     "or "
     "fp32 tokens and kv=fp8",
     "fwd fp8 s=8 d=64 snew=1 descale=head"},
    {"fwd s=8 d=64 kv=fp8 descale=page", "descale=page needs a paged cache, such as paged=16",
     "fwd s=8 d=64 kv=fp8 descale=page paged=3"},
};
INSTANTIATE_TEST_SUITE_P(DTypes, Validate, ::testing::ValuesIn(dtypes));

constexpr Case cache_dtypes[] = {
    {"fwd int8 s=8 d=64 descale=head", "int8 is a type of K and V alone; give the type of Q and kv=int8",
     "fwd bf16 s=8 d=64 kv=int8 descale=head"},
    {"fwd fp16 s=8 d=64 kv=int8", "kv=int8 needs factors: descale=tensor, descale=head, descale=token or",
     "fwd fp16 s=8 d=64 kv=int8 descale=token"},
    {"fwd bf16 s=8 d=64 kv=fp16", "kv=fp16 does not go with bf16 queries; K and V have their type, or fp8",
     "fwd bf16 s=8 d=64 kv=fp8"},
    {"fwd fp8 s=8 d=64 kv=fp8_e5m2",
     "kv=fp8_e5m2 does not go with fp8 queries, whose K and V have the same type",
     "fwd fp8_e5m2 s=8 d=64 kv=fp8_e5m2"},
    {"fwd fp8 s=8 d=64 kv=int8 descale=head", "kv=int8 does not go with fp8 queries",
     "fwd fp8 s=8 d=64 kv=fp8 descale=head"},
    {"bwd s=8 d=64 kv=fp8", "kv=fp8 does not go with bwd, where K and V have the type of Q",
     "bwd s=8 d=64 kv=bf16"},
    {"fwd fp32 s=64 d=64 dv=40 kv=int8 descale=page paged=16 kv_layout=vectorized",
     "dv=40 is not a multiple of 16, as kv_layout=vectorized needs with int8",
     "fwd fp32 s=64 d=64 dv=48 kv=int8 descale=page paged=16 kv_layout=vectorized"},
};
INSTANTIATE_TEST_SUITE_P(CacheDTypes, Validate, ::testing::ValuesIn(cache_dtypes));

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
    {"fwd s=8 d=64 lse dlse", "dlse needs bwd", "bwd s=8 d=64 dlse"},
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
    {"fwd s=8 d=64 varlen tk=4 paged=16", "tk=4 does not go with a KV cache, whose keys are not packed",
     "fwd s=8 d=64 varlen tq=4 paged=16"},
    {"fwd s=8 d=64 varlen tk=4 cache=2", "tk=4 does not go with a KV cache",
     "fwd s=8 d=64 varlen tq=4 cache=2"},
    {"fwd sq=8 sk=2147483648 d=64 lengths", "2147483648 key rows are too many for lengths",
     "fwd sq=8 sk=2147483648 d=64"},
    {"fwd sq=8 sk=2147483648 d=64 ranges", "are too many for ranges", "fwd sq=8 sk=2147483647 d=64 ranges"},
};
INSTANTIATE_TEST_SUITE_P(Sequences, Validate, ::testing::ValuesIn(sequences));

constexpr Case caches[] = {
    {"fwd s=64 d=64 paged=-1", "paged=-1 is too small", "fwd s=64 d=64 paged=1"},
    {"bwd s=64 d=64 paged=16", "paged=16 does not go with bwd", "append s=64 d=64 snew=1 paged=480"},
    {"fwd s=64 d=64 table=sglang", "table=sglang needs a paged cache", "fwd s=64 d=64 paged=7 table=sglang"},
    {"fwd s=64 d=64 kv_layout=vectorized", "kv_layout=vectorized needs a paged cache",
     "fwd s=64 d=64 paged=16 kv_layout=vectorized"},
    {"fwd s=64 d=64 paged=4 kv_layout=vectorized", "paged=4 is not a multiple of 8",
     "fwd s=64 d=64 paged=24 kv_layout=vectorized"},
    {"fwd s=64 d=60 paged=8 kv_layout=vectorized", "d=60 is not a multiple of 8", "fwd s=64 d=60 paged=8"},
    {"fwd fp8 s=64 d=64 dv=40 paged=16 kv_layout=vectorized", "dv=40 is not a multiple of 16",
     "fwd fp8 s=64 d=64 dv=48 paged=16 kv_layout=vectorized"},
    {"fwd s=64 d=64 pages=8", "pages=8 needs a paged cache", "fwd s=64 d=64 paged=16 pages=8"},
    {"fwd s=64 d=64 paged=1 pages=2147483648", "2147483648 pages are too many",
     "fwd s=64 d=64 paged=1 pages=2147483647"},
    {"fwd b=2 s=2147483647 d=8 paged=1", "4294967294 pages are too many", "fwd b=2 s=2147483647 d=8 paged=4"},
    {"fwd sq=1 sk=2147483648 d=8 paged=4 table=sglang", "2147483648 key rows are too many for paged",
     "fwd sq=1 sk=2147483647 d=8 paged=4 table=sglang"},
    {"append s=64 d=64 snew=1 paged=16 table=sglang lengths",
     "lengths does not go with append and table=sglang",
     "fwd s=64 d=64 snew=1 paged=16 table=sglang lengths"},
    {"fwd s=64 d=64 cache=8 paged=16", "cache=8 does not go with paged=16", "fwd s=64 d=64 cache=8"},
    {"fwd s=64 d=64 cache=-1", "cache=-1 is too small", "fwd s=64 d=64 snew=1 cache=1"},
    {"bwd s=64 d=64 cache=8", "cache=8 needs fwd or append", "append s=64 d=64 snew=1 cache=8 lengths"},
    {"fwd s=64 d=64 cache=2147483648", "2147483648 sequences are too many for cache_index",
     "fwd s=64 d=64 cache=2147483647"},
    {"bwd s=64 d=64 left_padding", "left_padding needs fwd or append", "fwd s=64 d=64 left_padding"},
    {"fwd s=64 d=64 left_padding varlen", "left_padding does not go with varlen unless K and V are a cache",
     "fwd s=64 d=64 left_padding varlen paged=3"},
    {"fwd sq=1 sk=2147483648 d=8 left_padding", "2147483648 key rows are too many for left_padding",
     "fwd sq=1 sk=2147483647 d=8 left_padding cache=1"},
};
INSTANTIATE_TEST_SUITE_P(Caches, Validate, ::testing::ValuesIn(caches));

constexpr Case new_tokens[] = {
    {"append s=64 d=64", "append needs new tokens, such as snew=1, or tnew=64 with slots=int64",
     "append s=64 d=64 snew=1"},
    {"append s=64 d=64 snew=65", "snew=65 new tokens do not fit; a sequence has room for sk=64",
     "append s=64 d=64 snew=64"},
    {"bwd s=64 d=64 snew=1", "snew=1 needs append or fwd; bwd writes no cache", "fwd s=64 d=64 snew=1"},
    {"merge s=64 d=64 parts=2 tnew=5", "tnew=5 needs append or fwd; merge writes no cache",
     "fwd s=64 d=64 snew=3 tnew=5"},
    {"fwd s=64 d=64 snew=65", "snew=65 new tokens do not fit", "fwd s=64 d=64 snew=64 softcap=3"},
    {"append s=64 d=64 tnew=5", "tnew=5 needs snew=N, the most new tokens of a sequence, or slots=int64",
     "append s=64 d=64 tnew=5 snew=3"},
    {"append s=64 d=64 tnew=-1", "tnew=-1 is too small", "append s=64 d=64 tnew=0 snew=1"},
    {"append s=64 d=64 snew=1 tnew=2147483648", "2147483648 new tokens are too many for offsets_new",
     "append s=64 d=64 slots=int64 tnew=2147483648"},
    {"append s=64 d=64 snew=1 varlen",
     "varlen does not go with append, which computes no attention; leave it "
     "out; packed new tokens are tnew=N",
     "append s=64 d=64 snew=1 tnew=5 lengths"},
    {"fwd s=64 d=64 snew=1 varlen", "varlen does not go with snew=1 unless K and V are a cache",
     "fwd s=64 d=64 snew=1 varlen cache=1"},
    {"fwd s=64 d=64 snew=1 tnew=5 varlen", "give cache=N for its sequences, or paged=16",
     "fwd s=64 d=64 snew=1 tnew=5 varlen lengths paged=7"},
    {"fwd s=64 d=64 slots=int64 tnew=5", "slots=int64 needs append; fwd writes new tokens after the keys",
     "append s=64 d=64 slots=int64 tnew=5"},
    {"append s=64 d=64 slots=int32 snew=1",
     "slots=int32 needs tnew=N, the number of tokens with a slot each, "
     "and no snew",
     "append s=64 d=64 slots=int32 tnew=5"},
    {"append s=64 d=64 slots=int32 snew=1 tnew=5", "and no snew", "append s=64 d=64 snew=1 tnew=5"},
    {"append s=64 d=64 slots=int64 tnew=5 lengths", "slots=int64 does not go with lengths",
     "append s=64 d=64 slots=int64 tnew=5 cache=3"},
    {"append s=64 d=64 slots=int64 tnew=5 left_padding", "slots=int64 does not go with left_padding",
     "append s=64 d=64 snew=1 left_padding"},
    {"append s=64 d=64 slots=int64 tnew=5 paged=16 table=sglang",
     "slots=int64 does not go with table=sglang, as a slot already says the row of the cache",
     "append s=64 d=64 slots=int64 tnew=5 paged=16"},
    {"append s=64 d=8 slots=int32 tnew=5 paged=16 pages=134217729",
     "2147483664 rows of the cache are too many for slots=int32",
     "append s=64 d=8 slots=int32 tnew=5 paged=16 pages=134217728"},
    {"append b=2 sq=1 sk=2147483647 d=8 slots=int32 tnew=5", "4294967294 rows of the cache are too many",
     "append b=2 sq=1 sk=2147483647 d=8 slots=int64 tnew=5"},
};
INSTANTIATE_TEST_SUITE_P(NewTokens, Validate, ::testing::ValuesIn(new_tokens));

constexpr Case rope[] = {
    {"fwd s=64 d=64 rope=half rotary=32", "rope=half needs append",
     "fwd s=64 d=64 snew=1 rope=half rotary=32"},
    {"append s=64 d=64 snew=1 rotary=32", "rotary=32 needs rope",
     "append s=64 d=64 snew=1 rope=interleaved rotary=32"},
    {"append s=64 d=64 snew=1 rope=half",
     "rope=half needs rotary=N, how many columns it rotates: an even number up to d=64",
     "append s=64 d=64 snew=1 rope=half rotary=2"},
    {"append s=64 d=64 snew=1 rope=half rotary=7", "rotary=7 is not an even number",
     "append s=64 d=64 snew=1 rope=half rotary=6"},
    {"append s=64 d=64 snew=1 rope=half rotary=66", "rotary=66 is not an even number between 2 and d=64",
     "append s=64 d=64 snew=1 rope=half rotary=64"},
    {"append fp8 s=64 d=64 snew=1 rope=half rotary=32", "rope=half does not go with fp8",
     "append bf16 kv=fp8 s=64 d=64 snew=1 rope=half rotary=32"},
    {"append s=64 d=64 snew=1 rope_type=fp32", "rope_type=fp32 needs rope",
     "append s=64 d=64 snew=1 rope=half rotary=32 rope_type=fp32"},
    {"append s=64 d=64 snew=1 rope=half rotary=32 rope_type=fp16",
     "rope_type=fp16 does not go with bf16; the tables are bf16 or fp32",
     "append fp16 s=64 d=64 snew=1 rope=half rotary=32 rope_type=fp16"},
    {"append fp32 s=64 d=64 snew=1 rope=half rotary=32 rope_type=bf16", "the tables are fp32",
     "append fp32 s=64 d=64 snew=1 rope=half rotary=32"},
    {"append s=64 d=64 snew=1 rope_rows=99", "rope_rows=99 needs rope",
     "append s=64 d=64 snew=1 rope=half rotary=32 rope_rows=99"},
    {"append s=64 d=64 snew=1 rope=half rotary=32 rope_rows=-1", "rope_rows=-1 is too small",
     "append s=64 d=64 snew=1 rope=half rotary=32 rope_rows=3"},
    {"fwd s=64 d=64 snew=1 positions=sequence", "positions=sequence needs rope",
     "fwd s=64 d=64 snew=1 rope=half rotary=32 positions=sequence"},
    {"fwd s=64 d=64 snew=1 rope=half rotary=32 positions=token", "positions=token needs append",
     "append s=64 d=64 snew=1 rope=half rotary=32 positions=token"},
    {"append s=64 d=64 slots=int64 tnew=5 rope=half rotary=32",
     "slots=int64 with rope=half needs positions=token, as a slot does not say the position of its token",
     "append s=64 d=64 slots=int64 tnew=5 rope=half rotary=32 positions=token"},
};
INSTANTIATE_TEST_SUITE_P(RotaryEmbedding, Validate, ::testing::ValuesIn(rope));

constexpr Case latent[] = {
    {"bwd s=8 d=40 dv=24 latent",
     "latent does not go with bwd; it is for fwd and append, so give V as a tensor",
     "fwd s=8 d=40 dv=24 latent"},
    {"merge s=8 d=64 parts=2 latent", "latent does not go with merge", "merge s=8 d=64 parts=2"},
    {"fwd s=8 d=64 dv=96 latent", "dv=96 is above d=64; with latent V is the first", "fwd s=8 d=64 latent"},
    {"fwd s=8 d=64 latent k_rope", "dv=64 is not below d=64, and k_rope has d - dv",
     "fwd s=8 d=64 dv=62 latent k_rope"},
    {"fwd s=8 d=64 dv=32 k_rope", "k_rope needs latent", "fwd s=8 d=64 dv=32 latent k_rope"},
    {"fwd s=8 d=64 dv=32 latent paged=16 kv_layout=vectorized",
     "latent does not go with kv_layout=vectorized, which stores V unlike K",
     "fwd s=8 d=64 dv=32 latent paged=16"},
    {"fwd s=8 d=64 dv=32 latent kv=int8 descale=token snew=1",
     "latent does not go with descale=token and new tokens",
     "fwd s=8 d=64 dv=32 latent kv=int8 descale=token"},
    {"fwd s=8 d=192 dv=128 latent kv=fp8 descale=columns", "descale=columns needs latent k_rope",
     "fwd s=8 d=192 dv=128 latent k_rope kv=fp8 descale=columns"},
    {"fwd fp8 s=8 d=192 dv=128 latent k_rope descale=columns",
     "descale=columns does not go with fp8 queries, as k_rope has the type of Q",
     "fwd fp32 s=8 d=192 dv=128 latent k_rope kv=fp8_e5m2 descale=columns"},
    {"fwd s=8 d=192 dv=64 latent k_rope kv=int8 descale=columns",
     "dv=64 is not a multiple of 128, the columns that share a factor",
     "append s=8 d=320 dv=256 latent k_rope kv=int8 descale=columns snew=1"},
    {"fwd s=8 d=192 dv=128 latent k_rope descale=columns",
     "descale=columns needs 8-bit K and V, such as kv=fp8", "fwd s=8 d=192 dv=128 latent k_rope"},
    {"append s=8 d=64 dv=48 latent snew=1 rope=half rotary=32",
     "rotary=32 is not an even number between 2 and d - dv = 16, as latent rotates columns after those of V",
     "append s=8 d=64 dv=48 latent k_rope snew=1 rope=half rotary=16"},
    {"append s=8 d=64 dv=48 latent snew=1 rope=half",
     "rope=half needs rotary=N, how many columns it rotates: an even number up to d - dv = 16",
     "append s=8 d=64 dv=48 latent snew=1 rope=interleaved rotary=16"},
};
INSTANTIATE_TEST_SUITE_P(Latent, Validate, ::testing::ValuesIn(latent));

constexpr Case no_attention[] = {
    {"append s=64 d=64 snew=1 mask=causal",
     "mask does not go with append, which computes no attention; leave it "
     "out, or use fwd with new tokens",
     "fwd s=64 d=64 snew=1 mask=causal"},
    {"append s=64 d=64 snew=1 softcap=3", "softcap does not go with append", "append s=64 d=64 snew=1"},
    {"append s=64 d=64 snew=1 sink", "sink does not go with append", "append s=64 d=64 snew=1"},
    {"append s=64 d=64 snew=1 bias=alibi", "bias does not go with append", "append s=64 d=64 snew=1"},
    {"append s=64 d=64 snew=1 dropout=0.5", "dropout does not go with append", "append s=64 d=64 snew=1"},
    {"append s=64 d=64 snew=1 bits", "bits does not go with append", "append s=64 d=64 snew=1"},
    {"append s=64 d=64 snew=1 ranges", "ranges does not go with append", "append s=64 d=64 snew=1"},
    {"append s=64 d=64 snew=1 scale=2", "scale does not go with append", "append s=64 d=64 snew=1"},
    {"append fp8 s=64 d=64 snew=1 out=fp32", "out does not go with append", "append fp8 s=64 d=64 snew=1"},
    {"append s=64 d=64 snew=1 lse", "lse does not go with append; only fwd and merge write LSE",
     "merge s=64 d=64 parts=2 lse"},
    {"merge s=64 d=64", "merge needs parts=N, the number of partial results", "merge s=64 d=64 parts=1"},
    {"fwd s=64 d=64 parts=2", "parts=2 needs merge, which reads partial results", "merge s=64 d=64 parts=2"},
    {"fwd s=64 d=64 accumulate", "accumulate needs merge", "merge s=64 d=64 parts=2 accumulate"},
    {"merge s=64 d=64 parts=-1", "parts=-1 is too small", "merge s=64 d=64 parts=300 varlen tq=7"},
    {"merge fp8 s=64 d=64 parts=2", "merge reads and writes bf16, fp16 or fp32; fp8 is neither",
     "merge fp32 s=64 d=64 parts=2 out=fp16"},
    {"merge s=64 d=64 parts=2 out=fp8", "fp8 is neither", "merge s=64 d=64 parts=2 out=fp32"},
    {"merge s=64 d=64 parts=2 sink", "sink does not go with merge, which computes no attention; leave it out",
     "merge s=64 d=64 parts=2"},
    {"merge s=64 d=64 parts=2 lengths", "lengths does not go with merge", "merge s=64 d=64 parts=2 varlen"},
    {"merge s=64 d=64 parts=2 paged=16", "paged does not go with merge", "merge s=64 d=64 parts=2"},
    {"merge s=64 d=64 parts=2 kv=int8", "kv does not go with merge", "merge s=64 d=64 parts=2"},
    {"merge s=64 d=64 parts=2 descale=head", "descale does not go with merge", "merge s=64 d=64 parts=2"},
    {"merge s=64 d=64 parts=2 rope=half rotary=2", "rope does not go with merge", "merge s=64 d=64 parts=2"},
    {"merge s=64 d=64 parts=2 cache=2", "cache=2 needs fwd or append", "merge s=64 d=64 parts=2"},
    {"merge s=64 d=64 parts=2 left_padding", "left_padding needs fwd or append", "merge s=64 d=64 parts=2"},
    {"merge s=64 d=64 parts=2 slots=int64 tnew=3", "tnew=3 needs append or fwd", "merge s=64 d=64 parts=2"},
    {"merge s=64 d=64 parts=2 batch_invariant", "batch_invariant does not go with merge",
     "merge s=64 d=64 parts=2"},
    {"merge b=4294967296 h=64 s=67108864 d=128 parts=2", "more than 2^63 bytes",
     "merge b=1 hq=64 hk=1 sq=64 sk=2305843009213693952 d=128 parts=2"},
};
INSTANTIATE_TEST_SUITE_P(NoAttention, Validate, ::testing::ValuesIn(no_attention));

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
