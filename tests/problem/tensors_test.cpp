#include "problem/tensors.h"

#include <gmock/gmock.h>

#include <cstring>

#include "problem/words.h"
#include "tensor_set.h"

namespace regard {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TensorSpec spec(const char* text, regard_role role) {
  return tensor_spec(*parse(text), role);
}

TEST(TensorSpec, DenseShapesAndLayouts) {
  const char* text = "fwd bf16 b=2 hq=6 hk=3 sq=5 sk=7 d=16 dv=8";
  EXPECT_THAT(spec(text, REGARD_Q).shape, ElementsAre(2, 5, 6, 16));
  EXPECT_THAT(spec(text, REGARD_K).shape, ElementsAre(2, 7, 3, 16));
  EXPECT_THAT(spec(text, REGARD_V).shape, ElementsAre(2, 7, 3, 8));
  EXPECT_THAT(spec(text, REGARD_O).shape, ElementsAre(2, 5, 6, 8));
  EXPECT_THAT(spec(text, REGARD_Q).strides, ElementsAre(480, 96, 16, 1));
  const std::string bhsd = std::string(text) + " layout=bhsd", sbhd = std::string(text) + " layout=sbhd";
  EXPECT_THAT(spec(bhsd.c_str(), REGARD_Q).shape, ElementsAre(2, 5, 6, 16));
  EXPECT_THAT(spec(bhsd.c_str(), REGARD_Q).strides, ElementsAre(480, 16, 80, 1));
  EXPECT_THAT(spec(sbhd.c_str(), REGARD_Q).strides, ElementsAre(96, 192, 16, 1));
}

TEST(TensorSpec, VarlenIsPackedTokens) {
  const char* text = "fwd bf16 b=3 hq=4 hk=2 sq=5 sk=7 d=16 varlen tq=11 lengths lse ranges bits bias=11";
  EXPECT_THAT(spec(text, REGARD_Q).shape, ElementsAre(11, 4, 16));
  EXPECT_THAT(spec(text, REGARD_K).shape, ElementsAre(21, 2, 16));
  EXPECT_THAT(spec(text, REGARD_LSE).shape, ElementsAre(4, 11));
  EXPECT_THAT(spec(text, REGARD_OFFSETS_Q).shape, ElementsAre(4));
  EXPECT_THAT(spec(text, REGARD_LENGTHS_K).shape, ElementsAre(3));
  EXPECT_THAT(spec(text, REGARD_RANGES).shape, ElementsAre(11, 2));
  EXPECT_THAT(spec(text, REGARD_BITS).shape, ElementsAre(3, 4, 5, 1));
  EXPECT_THAT(spec(text, REGARD_BIAS).shape, ElementsAre(1, 1, 5, 7));
  EXPECT_EQ(spec(text, REGARD_OFFSETS_Q).use, REGARD_INPUT);
  EXPECT_EQ(spec(text, REGARD_LENGTHS_Q).use, REGARD_OPTIONAL_INPUT);
}

TEST(TensorSpec, OtherShapes) {
  const char* text =
      "fwd bf16 b=2 hq=4 hk=2 sq=5 sk=65 d=16 lse ranges bits bias=1h dropout=0.1 dropout_mask sink";
  EXPECT_THAT(spec(text, REGARD_LSE).shape, ElementsAre(2, 4, 5));
  EXPECT_THAT(spec(text, REGARD_RANGES).shape, ElementsAre(2, 5, 2));
  EXPECT_THAT(spec(text, REGARD_BITS).shape, ElementsAre(2, 4, 5, 3));
  EXPECT_THAT(spec(text, REGARD_BIAS).shape, ElementsAre(1, 4, 5, 65));
  EXPECT_THAT(spec(text, REGARD_DROPOUT_MASK).shape, ElementsAre(2, 4, 5, 65));
  EXPECT_THAT(spec(text, REGARD_SINK).shape, ElementsAre(4));
  EXPECT_THAT(spec(text, REGARD_SEED).shape, ElementsAre(2));
  EXPECT_THAT(spec("fwd b=2 h=4 s=8 d=16 bias=b1", REGARD_BIAS).shape, ElementsAre(2, 1, 8, 8));
  EXPECT_THAT(spec("fwd b=2 h=4 s=8 d=16 bias=bh", REGARD_BIAS).shape, ElementsAre(2, 4, 8, 8));
  EXPECT_THAT(spec("fwd b=2 h=4 s=8 d=16 bias=alibi", REGARD_ALIBI).shape, ElementsAre(4));
  EXPECT_THAT(spec("fwd b=2 h=4 s=8 d=16 bias=alibi_b", REGARD_ALIBI).shape, ElementsAre(2, 4));
  EXPECT_THAT(spec("fwd fp8 b=2 h=4 s=8 d=16 descale=tensor", REGARD_DESCALE_V).shape, ElementsAre(1));
  EXPECT_THAT(spec("fwd fp8 b=2 hq=4 hk=2 s=8 d=16 descale=head", REGARD_DESCALE_Q).shape, ElementsAre(2, 2));
  EXPECT_THAT(spec("fwd b=2 h=4 sq=1 sk=33 d=16 paged=16", REGARD_K).shape, ElementsAre(6, 16, 4, 16));
}

TEST(TensorSpec, DTypes) {
  EXPECT_EQ(spec("fwd fp8 h=1 s=8 d=16 bias=11", REGARD_O).dtype, REGARD_BF16);
  EXPECT_EQ(spec("fwd fp8 h=1 s=8 d=16 bias=11", REGARD_BIAS).dtype, REGARD_FP32);
  EXPECT_EQ(spec("fwd fp16 h=1 s=8 d=16 bias=11", REGARD_BIAS).dtype, REGARD_FP16);
  EXPECT_EQ(spec("fwd fp16 h=1 s=8 d=16 bias=11 bias_type=fp32", REGARD_BIAS).dtype, REGARD_FP32);
  EXPECT_EQ(spec("bwd bf16 h=1 s=8 d=16 bias=11 bias_type=fp32 dbias", REGARD_GRAD_BIAS).dtype, REGARD_FP32);
  EXPECT_EQ(spec("bwd fp16 h=1 s=8 d=16", REGARD_LSE).dtype, REGARD_FP32);
  const char* int8 = "fwd fp16 h=1 s=8 d=16 kv=int8 descale=head snew=1";
  EXPECT_EQ(spec(int8, REGARD_K).dtype, REGARD_INT8);
  EXPECT_EQ(spec(int8, REGARD_V).dtype, REGARD_INT8);
  EXPECT_EQ(spec(int8, REGARD_V_NEW).dtype, REGARD_FP16);
  EXPECT_EQ(spec(int8, REGARD_O).dtype, REGARD_FP16);
  EXPECT_EQ(spec("append h=1 s=8 d=16 slots=int32 tnew=1", REGARD_SLOTS).dtype, REGARD_INT32);
  EXPECT_EQ(spec("append h=1 s=8 d=16 slots=int64 tnew=1", REGARD_SLOTS).dtype, REGARD_INT64);
  for (std::size_t i = 0; i < words_of<DType>().size(); ++i) {
    const auto dtype = static_cast<DType>(i);
    EXPECT_EQ(word(c_dtype(dtype)), word(dtype));
    EXPECT_EQ(bytes_of(c_dtype(dtype)), bytes_of(dtype));
  }
  EXPECT_EQ(c_dtype(DType::fp8_e5m2), REGARD_FP8_E5M2);
  EXPECT_EQ(c_dtype(DType::fp8_e5m2_fnuz), REGARD_FP8_E5M2_FNUZ);
}

TEST(TensorSpec, UseFollowsThePass) {
  const char* forward = "fwd b=1 h=2 s=8 d=16 sink";
  const char* backward = "bwd b=1 h=2 s=8 d=16 sink bias=11 dbias";
  EXPECT_EQ(spec(forward, REGARD_O).use, REGARD_OUTPUT);
  EXPECT_EQ(spec(forward, REGARD_LSE).use, REGARD_UNUSED);
  EXPECT_EQ(spec(forward, REGARD_GRAD_SINK).use, REGARD_UNUSED);
  EXPECT_EQ(spec(backward, REGARD_O).use, REGARD_INPUT);
  EXPECT_EQ(spec(backward, REGARD_LSE).use, REGARD_INPUT);
  EXPECT_EQ(spec(backward, REGARD_GRAD_Q).use, REGARD_OUTPUT);
  EXPECT_EQ(spec(backward, REGARD_GRAD_SINK).use, REGARD_OUTPUT);
  EXPECT_EQ(spec(backward, REGARD_GRAD_BIAS).use, REGARD_OUTPUT);
  EXPECT_EQ(spec("bwd b=1 h=2 s=8 d=16 bias=11", REGARD_GRAD_BIAS).use, REGARD_UNUSED);
  EXPECT_EQ(spec("fwd b=1 h=2 s=8 d=16 dropout=0.1", REGARD_SEED).use, REGARD_OPTIONAL_INPUT);
}

TEST(Roles, NamesReadBack) {
  for (int i = 0; i < REGARD_ROLE_COUNT; ++i) {
    const auto role = static_cast<regard_role>(i);
    ASSERT_FALSE(role_name(role).empty()) << i;
    EXPECT_EQ(*role_from_name(role_name(role)), role);
  }
  EXPECT_TRUE(role_name(REGARD_ROLE_COUNT).empty());
  const Result<regard_role> unknown = role_from_name("gard_q");
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().message, "unknown tensor 'gard_q'; did you mean 'grad_q'?");
}

TEST(TensorSpec, APagedCache) {
  const char* text = "fwd fp16 b=2 hq=4 hk=2 sq=3 sk=33 d=16 dv=24 paged=16";
  const std::string with_pages = std::string(text) + " pages=50",
                    sglang = std::string(text) + " table=sglang lengths";
  const std::string vectorized = std::string(text) + " kv_layout=vectorized layout=bhsd";
  EXPECT_THAT(spec(text, REGARD_K).shape, ElementsAre(6, 16, 2, 16));
  EXPECT_THAT(spec(with_pages.c_str(), REGARD_V).shape, ElementsAre(50, 16, 2, 24));
  EXPECT_THAT(spec(vectorized.c_str(), REGARD_K).shape, ElementsAre(6, 2, 2, 128));
  EXPECT_THAT(spec(vectorized.c_str(), REGARD_V).shape, ElementsAre(6, 2, 2, 192));
  EXPECT_THAT(spec(vectorized.c_str(), REGARD_V).strides, ElementsAre(768, 384, 192, 1));
  EXPECT_THAT(spec(text, REGARD_PAGE_TABLE).shape, ElementsAre(2, 3));
  EXPECT_EQ(spec(text, REGARD_PAGE_TABLE).use, REGARD_INPUT);
  EXPECT_EQ(spec(text, REGARD_PAGE_LIST).use, REGARD_UNUSED);
  EXPECT_EQ(spec(sglang.c_str(), REGARD_PAGE_TABLE).use, REGARD_UNUSED);
  EXPECT_EQ(spec(sglang.c_str(), REGARD_LENGTHS_K).use, REGARD_UNUSED);
  EXPECT_EQ(spec(sglang.c_str(), REGARD_LENGTHS_Q).use, REGARD_OPTIONAL_INPUT);
  EXPECT_THAT(spec(sglang.c_str(), REGARD_PAGE_OFFSETS).shape, ElementsAre(3));
  EXPECT_THAT(spec(sglang.c_str(), REGARD_PAGE_LIST).shape, ElementsAre(6));
  EXPECT_THAT(spec(sglang.c_str(), REGARD_LAST_PAGE_LENGTHS).shape, ElementsAre(2));
  EXPECT_EQ(spec("fwd b=2 h=4 s=8 d=16", REGARD_PAGE_TABLE).use, REGARD_UNUSED);
}

TEST(TensorSpec, NewTokensChangeTheCache) {
  const char* append =
      "append bf16 b=2 hq=4 hk=2 sq=3 sk=33 d=64 dv=32 snew=5 rope=half rotary=32 cache=7 lengths";
  EXPECT_THAT(spec(append, REGARD_K).shape, ElementsAre(7, 33, 2, 64));
  EXPECT_THAT(spec(append, REGARD_K_NEW).shape, ElementsAre(2, 5, 2, 64));
  EXPECT_THAT(spec(append, REGARD_V_NEW).shape, ElementsAre(2, 5, 2, 32));
  EXPECT_THAT(spec(append, REGARD_ROPE_COS).shape, ElementsAre(33, 16));
  EXPECT_EQ(spec(append, REGARD_ROPE_SIN).dtype, REGARD_BF16);
  EXPECT_THAT(spec(append, REGARD_CACHE_INDEX).shape, ElementsAre(2));
  EXPECT_EQ(spec(append, REGARD_V).use, REGARD_INPUT_OUTPUT);
  EXPECT_EQ(spec(append, REGARD_Q).use, REGARD_UNUSED);
  EXPECT_EQ(spec(append, REGARD_O).use, REGARD_UNUSED);
  EXPECT_EQ(spec(append, REGARD_LENGTHS_Q).use, REGARD_UNUSED);
  EXPECT_EQ(spec("append b=1 h=1 s=8 d=32 snew=1", REGARD_Q).use, REGARD_UNUSED);
  const char* attends = "fwd bf16 b=2 hq=4 hk=2 sq=3 sk=33 d=64 snew=5 rope=half rotary=32";
  EXPECT_EQ(spec(attends, REGARD_K).use, REGARD_INPUT_OUTPUT);
  EXPECT_EQ(spec(attends, REGARD_Q).use, REGARD_INPUT);
  EXPECT_EQ(spec(attends, REGARD_O).use, REGARD_OUTPUT);
  EXPECT_EQ(spec(attends, REGARD_CACHE_INDEX).use, REGARD_UNUSED);
  EXPECT_EQ(spec(attends, REGARD_POSITIONS).use, REGARD_UNUSED);
  EXPECT_EQ(spec("fwd b=2 h=2 s=8 d=64 cache=3", REGARD_CACHE_INDEX).use, REGARD_OPTIONAL_INPUT);
}

TEST(TensorSpec, VIsAPartOfALatentK) {
  const char* one =
      "fwd bf16 kv=int8 descale=tensor b=2 hq=4 hk=1 sq=3 sk=33 d=40 dv=24 paged=7 latent snew=2";
  EXPECT_THAT(spec(one, REGARD_K).shape, ElementsAre(10, 7, 1, 40));
  EXPECT_THAT(spec(one, REGARD_K_NEW).shape, ElementsAre(2, 2, 1, 40));
  EXPECT_THAT(spec(one, REGARD_O).shape, ElementsAre(2, 3, 4, 24));
  for (const regard_role role : {REGARD_V, REGARD_V_NEW, REGARD_DESCALE_V, REGARD_K_ROPE})
    EXPECT_EQ(spec(one, role).use, REGARD_UNUSED) << role;
  const std::string two = std::string(one) + " k_rope";
  EXPECT_THAT(spec(two.c_str(), REGARD_K).shape, ElementsAre(10, 7, 1, 24));
  EXPECT_THAT(spec(two.c_str(), REGARD_K_ROPE).shape, ElementsAre(10, 7, 1, 16));
  EXPECT_THAT(spec(two.c_str(), REGARD_K_NEW).shape, ElementsAre(2, 2, 1, 40));
  EXPECT_EQ(spec(two.c_str(), REGARD_K_ROPE).dtype, REGARD_INT8);
  EXPECT_EQ(spec(two.c_str(), REGARD_K_ROPE).use, REGARD_INPUT_OUTPUT);
  EXPECT_EQ(spec("fwd h=1 s=8 d=40 dv=24 latent k_rope", REGARD_K_ROPE).use, REGARD_INPUT);
}

TEST(TensorSpec, FactorsOfColumns) {
  const std::string words =
      "fwd bf16 kv=fp8 descale=columns b=2 hq=4 hk=1 sq=3 sk=33 d=576 dv=512 latent k_rope ";
  EXPECT_THAT(spec((words + "paged=7").c_str(), REGARD_DESCALE_K).shape, ElementsAre(10, 7, 1, 4));
  EXPECT_THAT(spec((words + "varlen tk=9").c_str(), REGARD_DESCALE_K).shape, ElementsAre(9, 1, 4));
  EXPECT_EQ(spec(words.c_str(), REGARD_DESCALE_K).use, REGARD_INPUT);
  EXPECT_EQ(spec((words + "snew=1").c_str(), REGARD_DESCALE_K).use, REGARD_INPUT_OUTPUT);
  EXPECT_EQ(spec(words.c_str(), REGARD_DESCALE_V).use, REGARD_UNUSED);
  EXPECT_EQ(spec(words.c_str(), REGARD_K).dtype, REGARD_FP8);
  EXPECT_EQ(spec(words.c_str(), REGARD_K_ROPE).dtype, REGARD_BF16);
}

TEST(TensorSpec, PackedQueriesOnACache) {
  const char* dense = "fwd b=2 hq=4 hk=2 sq=3 sk=33 d=16 varlen tq=5 cache=7 lengths";
  EXPECT_THAT(spec(dense, REGARD_Q).shape, ElementsAre(5, 4, 16));
  EXPECT_THAT(spec(dense, REGARD_K).shape, ElementsAre(7, 33, 2, 16));
  EXPECT_EQ(spec(dense, REGARD_OFFSETS_Q).use, REGARD_INPUT);
  EXPECT_EQ(spec(dense, REGARD_OFFSETS_K).use, REGARD_UNUSED);
  const char* paged = "fwd b=2 hq=4 hk=2 sq=3 sk=33 d=16 varlen paged=7 left_padding";
  EXPECT_THAT(spec(paged, REGARD_K).shape, ElementsAre(10, 7, 2, 16));
  EXPECT_THAT(spec(paged, REGARD_PAGE_TABLE).shape, ElementsAre(2, 5));
  EXPECT_EQ(spec(paged, REGARD_OFFSETS_K).use, REGARD_UNUSED);
  EXPECT_THAT(spec(paged, REGARD_LEFT_PADDING).shape, ElementsAre(2));
  EXPECT_EQ(spec(paged, REGARD_LEFT_PADDING).use, REGARD_INPUT);
  EXPECT_EQ(spec(dense, REGARD_LEFT_PADDING).use, REGARD_UNUSED);
}

TEST(TensorSpec, PackedNewTokens) {
  const char* packed =
      "append b=2 hq=4 hk=2 s=33 d=64 dv=32 snew=5 tnew=6 rope=half rotary=6 rope_type=fp32 rope_rows=99 "
      "positions=token";
  EXPECT_THAT(spec(packed, REGARD_K_NEW).shape, ElementsAre(6, 2, 64));
  EXPECT_THAT(spec(packed, REGARD_V_NEW).shape, ElementsAre(6, 2, 32));
  EXPECT_THAT(spec(packed, REGARD_OFFSETS_NEW).shape, ElementsAre(3));
  EXPECT_EQ(spec(packed, REGARD_OFFSETS_NEW).use, REGARD_INPUT);
  EXPECT_THAT(spec(packed, REGARD_ROPE_SIN).shape, ElementsAre(99, 3));
  EXPECT_EQ(spec(packed, REGARD_ROPE_SIN).dtype, REGARD_FP32);
  EXPECT_THAT(spec(packed, REGARD_POSITIONS).shape, ElementsAre(6));
  EXPECT_EQ(spec(packed, REGARD_SLOTS).use, REGARD_UNUSED);
  const std::string dense = " b=2 h=1 s=33 d=64 snew=5 rope=half rotary=6 ";
  EXPECT_THAT(spec(("append" + dense + "positions=token").c_str(), REGARD_POSITIONS).shape,
              ElementsAre(2, 5));
  EXPECT_THAT(spec(("fwd" + dense + "positions=sequence").c_str(), REGARD_POSITIONS).shape, ElementsAre(2));
  const char* slots = "append b=2 hq=4 hk=2 s=33 d=64 tnew=6 slots=int32 paged=16";
  EXPECT_THAT(spec(slots, REGARD_K_NEW).shape, ElementsAre(6, 2, 64));
  EXPECT_THAT(spec(slots, REGARD_SLOTS).shape, ElementsAre(6));
  for (const regard_role role : {REGARD_OFFSETS_NEW, REGARD_PAGE_TABLE, REGARD_LENGTHS_K, REGARD_POSITIONS})
    EXPECT_EQ(spec(slots, role).use, REGARD_UNUSED) << role;
}

TEST(TensorSpec, FactorsOfACache) {
  const auto factors = [](const std::string& words) {
    return spec(("fwd b=2 hq=4 hk=2 sq=3 sk=33 d=64 kv=int8 " + words).c_str(), REGARD_DESCALE_V);
  };
  EXPECT_THAT(factors("descale=tensor").shape, ElementsAre(1));
  EXPECT_THAT(factors("descale=head").shape, ElementsAre(2, 2));
  EXPECT_THAT(factors("descale=token").shape, ElementsAre(2, 33, 2));
  EXPECT_THAT(factors("descale=token cache=7").shape, ElementsAre(7, 33, 2));
  EXPECT_THAT(factors("descale=token varlen tk=9").shape, ElementsAre(9, 2));
  EXPECT_THAT(factors("descale=token paged=7").shape, ElementsAre(10, 7, 2));
  EXPECT_THAT(factors("descale=page paged=7 pages=50").shape, ElementsAre(50, 2));
  EXPECT_EQ(factors("descale=page paged=7 snew=1").use, REGARD_INPUT);
  EXPECT_EQ(factors("descale=token paged=7").use, REGARD_INPUT);
  EXPECT_EQ(factors("descale=token paged=7 snew=1").use, REGARD_INPUT_OUTPUT);
  EXPECT_EQ(spec("fwd h=1 s=8 d=16 kv=int8 descale=head", REGARD_DESCALE_Q).use, REGARD_UNUSED);
  EXPECT_THAT(spec("fwd fp8 b=2 h=3 s=8 d=16 descale=token", REGARD_DESCALE_Q).shape, ElementsAre(1));
  EXPECT_EQ(spec("append fp16 h=1 s=8 d=16 kv=fp8 snew=1 descale=head", REGARD_DESCALE_Q).use, REGARD_UNUSED);
}

TEST(TensorSpec, MergeReadsParts) {
  const char* merge = "merge fp32 b=2 hq=4 hk=2 s=3 d=64 dv=32 parts=5 out=fp16 lse";
  EXPECT_THAT(spec(merge, REGARD_PARTIAL_O).shape, ElementsAre(5, 6, 4, 32));
  EXPECT_EQ(spec(merge, REGARD_PARTIAL_O).dtype, REGARD_FP32);
  EXPECT_THAT(spec(merge, REGARD_PARTIAL_LSE).shape, ElementsAre(5, 4, 6));
  EXPECT_THAT(spec(merge, REGARD_O).shape, ElementsAre(2, 3, 4, 32));
  EXPECT_EQ(spec(merge, REGARD_O).dtype, REGARD_FP16);
  EXPECT_EQ(spec(merge, REGARD_O).use, REGARD_OUTPUT);
  EXPECT_EQ(spec(merge, REGARD_LSE).use, REGARD_OUTPUT);
  for (const regard_role role : {REGARD_Q, REGARD_K, REGARD_V})
    EXPECT_EQ(spec(merge, role).use, REGARD_UNUSED);
  const char* in_place = "merge b=2 h=4 s=3 d=64 parts=5 varlen tq=7 accumulate";
  EXPECT_THAT(spec(in_place, REGARD_PARTIAL_O).shape, ElementsAre(5, 7, 4, 64));
  EXPECT_EQ(spec(in_place, REGARD_O).use, REGARD_INPUT_OUTPUT);
  EXPECT_EQ(spec(in_place, REGARD_LSE).use, REGARD_INPUT_OUTPUT);
}

/// A problem, a `change` that makes its tensors wrong, and the words of the refusal.
struct Spoiled {
  const char* problem;
  void (*change)(TensorSet&);
  const char* message;
};

class CheckTensors : public ::testing::TestWithParam<Spoiled> {};

TEST_P(CheckTensors, RefusesOnlyTheSpoiledOnes) {
  const Spoiled& c = GetParam();
  TensorSet tensors(*parse(c.problem));
  const Status fine = check_tensors(tensors.problem, tensors.arguments);
  ASSERT_TRUE(fine) << c.problem << ": " << fine.error().message;
  c.change(tensors);
  const Status refusal = check_tensors(tensors.problem, tensors.arguments);
  ASSERT_FALSE(refusal) << c.problem << ": " << c.message;
  EXPECT_EQ(refusal.error().kind, ErrorKind::invalid);
  EXPECT_THAT(refusal.error().message, HasSubstr(c.message)) << c.problem;
}

constexpr char dense[] = "fwd bf16 b=2 hq=4 hk=2 sq=5 sk=7 d=16 lse";
constexpr char everything[] =
    "fwd bf16 b=2 hq=4 hk=2 sq=5 sk=40 d=16 bias=bh ranges bits dropout=0.5 dropout_mask sink lengths";
const Spoiled spoiled[] = {
    {dense, [](TensorSet& t) { t[REGARD_K].data = nullptr; },
     "tensor 'k' is missing (null); the problem needs it as bf16 [2, 7, 2, 16]"},
    {dense, [](TensorSet& t) { t[REGARD_LSE].data = nullptr; }, "tensor 'lse' is missing"},
    {dense, [](TensorSet& t) { t[REGARD_BIAS] = t[REGARD_Q]; }, "tensor 'bias' is given, but 'fwd bf16"},
    {dense, [](TensorSet& t) { t[REGARD_K_NEW] = t[REGARD_K]; }, "tensor 'k_new' is given, but 'fwd bf16"},
    {dense, [](TensorSet& t) { t[REGARD_K].dtype = REGARD_FP16; },
     "tensor 'k' is fp16; the problem needs bf16"},
    {dense, [](TensorSet& t) { t[REGARD_LSE].dtype = REGARD_BF16; },
     "tensor 'lse' is bf16; the problem needs fp32"},
    {dense, [](TensorSet& t) { std::memset(&t[REGARD_Q].dtype, 0x40, 1); }, "of the unknown dtype 64"},
    {dense, [](TensorSet& t) { t[REGARD_K].shape[3] = 8; },
     "tensor 'k' has shape [2, 7, 2, 8]; it must be [2, 7, 2, 16], so dimension 3 is wrong"},
    {dense, [](TensorSet& t) { t[REGARD_K].shape[2] = 4; }, "dimension 2 is wrong"},
    {dense, [](TensorSet& t) { t[REGARD_Q].shape[0] = -2; }, "dimension 0 is wrong"},
    {dense, [](TensorSet& t) { t[REGARD_Q].rank = 3; },
     "tensor 'q' has rank 3; it must be bf16 [2, 5, 4, 16]"},
    {dense, [](TensorSet& t) { t[REGARD_Q].rank = 0; }, "tensor 'q' has rank 0"},
    {dense, [](TensorSet& t) { t[REGARD_Q].rank = 5; }, "tensor 'q' has rank 5"},
    {dense, [](TensorSet& t) { t[REGARD_Q].strides[3] = 2; }, "the last dimension must be contiguous"},
    {dense, [](TensorSet& t) { t[REGARD_Q].strides[3] = 0; }, "the last dimension must be contiguous"},
    {dense, [](TensorSet& t) { t[REGARD_Q].strides[1] = -64; }, "negative strides are not supported"},
    {dense, [](TensorSet& t) { t[REGARD_Q].strides[1] = 8; },
     "where elements overlap; strides without gaps would be"},
    {dense, [](TensorSet& t) { t[REGARD_O].strides[0] = 0; }, "where elements overlap"},
    {dense, [](TensorSet& t) { t[REGARD_Q].strides[0] = INT64_MAX; }, "reach past 2^63 bytes"},
    {dense, [](TensorSet& t) { t[REGARD_Q].strides[0] = INT64_MAX / 2; }, "reach past 2^63 bytes"},
    {dense, [](TensorSet& t) { t.move(REGARD_Q, 1); }, "does not start at a multiple of 2 bytes"},
    {everything, [](TensorSet& t) { t[REGARD_BIAS].shape[0] = 1; }, "tensor 'bias' has shape [1, 4, 5, 40]"},
    {everything, [](TensorSet& t) { t[REGARD_BITS].shape[3] = 1; }, "tensor 'bits' has shape [2, 4, 5, 1]"},
    {everything, [](TensorSet& t) { t[REGARD_RANGES].strides[1] = 4, t[REGARD_RANGES].strides[0] = 20; },
     "row stride 4"},
    {everything, [](TensorSet& t) { t[REGARD_SINK].strides[0] = 2; },
     "the last dimension must be contiguous"},
    {everything, [](TensorSet& t) { t[REGARD_LENGTHS_Q].data = t[REGARD_LENGTHS_K].data = nullptr; },
     "neither lengths_q nor lengths_k is given"},
    {"fwd fp8 b=2 h=4 s=8 d=16 descale=head", [](TensorSet& t) { t[REGARD_DESCALE_K].strides[0] = -4; },
     "negative strides are not supported"},
    {"fwd fp8 b=2 h=4 s=8 d=16 descale=head", [](TensorSet& t) { t[REGARD_DESCALE_K].shape[1] = 1; },
     "tensor 'descale_k' has shape [2, 1]; it must be [2, 4]"},
    {"fwd b=2 h=4 s=8 d=16 kv=int8 descale=token", [](TensorSet& t) { t[REGARD_DESCALE_K].shape[0] = 1; },
     "tensor 'descale_k' has shape [1, 8, 4]; it must be [2, 8, 4]"},
    {"append b=2 h=4 s=8 d=16 snew=1 kv=int8 descale=token",
     [](TensorSet& t) { t[REGARD_DESCALE_V].strides[1] = 0; }, "where elements overlap"},
    {"fwd b=3 h=4 s=8 d=16 cache=2", [](TensorSet& t) { t[REGARD_CACHE_INDEX].data = nullptr; },
     "the cache has 2 sequences, fewer than the batch of 3; give cache_index, or a larger cache"},
    {"merge b=2 h=4 s=8 d=16 parts=2", [](TensorSet& t) { t[REGARD_PARTIAL_O].strides[3] = 2; },
     "the last dimension must be contiguous"},
    {"merge b=2 h=4 s=8 d=16 parts=2 accumulate", [](TensorSet& t) { t[REGARD_LSE].data = nullptr; },
     "tensor 'lse' is missing"},
    {"merge b=2 h=4 s=8 d=16 parts=2 accumulate",
     [](TensorSet& t) { t[REGARD_O].data = t[REGARD_PARTIAL_O].data; },
     "tensor 'o' shares memory with tensor 'partial_o'"},
    {"append b=2 h=4 s=8 d=16 tnew=3 slots=int64", [](TensorSet& t) { t[REGARD_SLOTS].dtype = REGARD_INT32; },
     "tensor 'slots' is int32; the problem needs int64"},
    {"fwd b=2 h=4 s=8 d=16 kv=int8 descale=head", [](TensorSet& t) { t[REGARD_V].dtype = REGARD_BF16; },
     "tensor 'v' is bf16; the problem needs int8"},
    {"fwd b=2 h=4 s=8 d=16 varlen", [](TensorSet& t) { t[REGARD_OFFSETS_K].data = nullptr; },
     "tensor 'offsets_k' is missing"},
    {"fwd b=2 h=4 s=8 d=16 varlen", [](TensorSet& t) { t[REGARD_OFFSETS_K].shape[0] = 2; },
     "tensor 'offsets_k' has shape [2]; it must be [3]"},
    {"bwd b=2 h=4 s=8 d=16", [](TensorSet& t) { t[REGARD_GRAD_V].strides[1] = 0; }, "where elements overlap"},
    {"fwd b=2 h=4 s=8 d=16 snew=1", [](TensorSet& t) { t[REGARD_K].strides[0] = 0; },
     "where elements overlap"},
    {"fwd b=2 h=4 s=8 d=16 snew=1", [](TensorSet& t) { t[REGARD_K_NEW].data = nullptr; },
     "tensor 'k_new' is missing"},
    {"fwd b=2 h=4 s=8 d=16 snew=1", [](TensorSet& t) { t[REGARD_V].data = nullptr; },
     "tensor 'v' is missing"},
    {"fwd b=2 h=4 s=8 d=16 dv=8 latent", [](TensorSet& t) { t[REGARD_V] = t[REGARD_K]; },
     "tensor 'v' is given, but 'fwd bf16 b=2 h=4 s=8 d=16 dv=8 latent' does not use it; leave it out"},
    {"fwd b=2 h=4 s=8 d=16 dv=8 latent k_rope", [](TensorSet& t) { t[REGARD_K_ROPE].data = nullptr; },
     "tensor 'k_rope' is missing (null); the problem needs it as bf16 [2, 8, 4, 8]"},
    {"append b=2 h=4 s=8 d=32 snew=1 rope=half rotary=16",
     [](TensorSet& t) { t[REGARD_ROPE_COS].dtype = REGARD_FP32; }, "tensor 'rope_cos' is fp32"},
    {"fwd b=2 h=4 sq=1 sk=64 d=16 paged=16", [](TensorSet& t) { t[REGARD_PAGE_TABLE].shape[1] = 3; },
     "tensor 'page_table' has shape [2, 3]; it must be [2, 4]"},
    {"fwd b=2 h=4 sq=1 sk=64 d=16 paged=16 table=sglang",
     [](TensorSet& t) { t[REGARD_PAGE_LIST].shape[0] = 9; },
     "tensor 'page_list' has shape [9]; it must be [8] or shorter"},
    {"fwd b=2 h=4 sq=1 sk=64 d=16 paged=16 table=sglang",
     [](TensorSet& t) { t[REGARD_PAGE_LIST].shape[0] = -1; }, "dimension 0 is wrong"},
};
INSTANTIATE_TEST_SUITE_P(Tensors, CheckTensors, ::testing::ValuesIn(spoiled));

/// Unusual but valid tensors.
TEST(CheckTensorsAccepts, AnyLayoutThatNests) {
  for (const char* layout : {"", " layout=bhsd", " layout=sbhd"}) {
    TensorSet tensors(*parse("bwd bf16 b=2 hq=4 hk=2 sq=5 sk=7 d=16 dv=24" + std::string(layout)));
    EXPECT_TRUE(check_tensors(tensors.problem, tensors.arguments)) << layout;
  }
  TensorSet tensors(*parse(dense));
  tensors[REGARD_Q].strides[2] = 48;  // a slice of packed q, k, v
  tensors[REGARD_Q].strides[1] = 192;
  tensors[REGARD_Q].strides[0] = 960;
  tensors.memory[REGARD_Q].resize(2 * 960 * 4);
  tensors[REGARD_Q].data = tensors.memory[REGARD_Q].data();
  EXPECT_TRUE(check_tensors(tensors.problem, tensors.arguments));
}

TEST(CheckTensorsAccepts, ExpandedInputs) {
  TensorSet tensors(*parse(everything));
  tensors[REGARD_BITS].shape[0] = tensors[REGARD_BITS].shape[1] = 1;
  tensors[REGARD_BITS].strides[0] = tensors[REGARD_BITS].strides[1] = 0;
  tensors[REGARD_RANGES].shape[0] = 1;
  tensors[REGARD_RANGES].strides[0] = 0;
  tensors[REGARD_BIAS].strides[0] = 0;
  tensors[REGARD_K].strides[2] = 0;
  tensors[REGARD_LENGTHS_Q].data = nullptr;
  const Status status = check_tensors(tensors.problem, tensors.arguments);
  EXPECT_TRUE(status) << status.error().message;
}

TEST(CheckTensorsAccepts, ABiasAndBitsOfKeysOnly) {
  TensorSet tensors(*parse(everything));
  for (const regard_role role : {REGARD_BIAS, REGARD_BITS}) {
    tensors[role].shape[2] = 1;
    tensors[role].strides[2] = -1;  // not used
  }
  const Status status = check_tensors(tensors.problem, tensors.arguments);
  EXPECT_TRUE(status) << status.error().message;
  TensorSet backward(*parse("bwd bf16 b=2 h=4 sq=5 sk=40 d=16 bias=bh dbias"));
  backward[REGARD_BIAS].shape[2] = 1;
  EXPECT_TRUE(check_tensors(backward.problem, backward.arguments));
  backward[REGARD_GRAD_BIAS].shape[2] = 1;  // a row of the gradient has one writer
  EXPECT_FALSE(check_tensors(backward.problem, backward.arguments));
}

TEST(CheckTensorsAccepts, AListOfThePagesInUse) {
  TensorSet tensors(*parse("fwd b=2 h=4 sq=1 sk=64 d=16 paged=16 table=sglang"));
  for (const std::int64_t used : {0, 3, 8}) {
    tensors[REGARD_PAGE_LIST].shape[0] = used;
    const Status status = check_tensors(tensors.problem, tensors.arguments);
    EXPECT_TRUE(status) << status.error().message;
  }
}

TEST(CheckTensorsAccepts, FactorsWithAnyStrides) {
  TensorSet heads(*parse("fwd b=2 h=4 s=8 d=16 kv=int8 descale=head"));
  heads[REGARD_DESCALE_K].strides[0] = 1, heads[REGARD_DESCALE_K].strides[1] = 2;  // transposed
  heads[REGARD_DESCALE_V].strides[0] = heads[REGARD_DESCALE_V].strides[1] = 0;     // expanded
  EXPECT_TRUE(check_tensors(heads.problem, heads.arguments));
  heads[REGARD_DESCALE_V].shape[0] = 1;
  EXPECT_TRUE(check_tensors(heads.problem, heads.arguments));
  TensorSet tokens(*parse("append b=2 h=4 s=8 d=16 snew=1 kv=int8 descale=token"));
  regard_tensor& factors = tokens[REGARD_DESCALE_K];
  factors.strides[0] = 32, factors.strides[1] = 1, factors.strides[2] = 8;  // [sequences, heads, rows]
  EXPECT_TRUE(check_tensors(tokens.problem, tokens.arguments));
  TensorSet parts(*parse("merge b=2 h=4 s=8 d=16 parts=2"));
  parts[REGARD_PARTIAL_LSE].strides[1] = 1,
  parts[REGARD_PARTIAL_LSE].strides[2] = 4;  // [parts, tokens, heads]
  EXPECT_TRUE(check_tensors(parts.problem, parts.arguments));
}

TEST(CheckTensorsAccepts, ACacheAsLargeAsTheBatchWithoutIndex) {
  TensorSet tensors(*parse("fwd b=2 h=4 s=8 d=16 cache=2"));
  tensors[REGARD_CACHE_INDEX].data = nullptr;
  EXPECT_TRUE(check_tensors(tensors.problem, tensors.arguments));
}

TEST(CheckTensorsAccepts, KeysAndValuesSideBySideInAPage) {
  TensorSet tensors(*parse("append b=1 h=2 s=32 d=16 snew=1 paged=16 pages=3"));
  std::vector<std::byte> pages(std::size_t{3} * 16 * 2 * 32 * 2);
  for (const regard_role role : {REGARD_K, REGARD_V}) {
    regard_tensor& rows = tensors[role];
    rows.data = pages.data();
    rows.strides[0] = 1024, rows.strides[1] = 64, rows.strides[2] = 32;
  }
  EXPECT_FALSE(check_tensors(tensors.problem, tensors.arguments));
  tensors.move(REGARD_V, 32);
  const Status status = check_tensors(tensors.problem, tensors.arguments);
  EXPECT_TRUE(status) << status.error().message;
}

TEST(CheckTensorsAccepts, StridesOfDimensionsOfOne) {
  TensorSet tensors(*parse("fwd bf16 b=1 hq=4 hk=1 sq=1 sk=7 d=16"));
  for (const regard_role role : {REGARD_Q, REGARD_K, REGARD_O}) tensors[role].strides[0] = -7;
  tensors[REGARD_O].strides[1] = 0;
  const Status status = check_tensors(tensors.problem, tensors.arguments);
  EXPECT_TRUE(status) << status.error().message;
}

TEST(CheckTensorsAccepts, NullWhereNothingIs) {
  TensorSet tensors(*parse("fwd bf16 b=2 h=4 sq=5 sk=0 d=16"));
  tensors[REGARD_K].data = tensors[REGARD_V].data = nullptr;
  const Status status = check_tensors(tensors.problem, tensors.arguments);
  EXPECT_TRUE(status) << status.error().message;
}

}  // namespace
}  // namespace regard
