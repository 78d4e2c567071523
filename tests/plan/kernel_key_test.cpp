// Keys: their text parses back, and signatures collapse to what a kernel depends on.
#include "plan/kernel_key.h"

#include <gmock/gmock.h>

#include "../problem/random_problem.h"

namespace regard {
namespace {

using testing::HasSubstr;

TEST(KernelKey, ParsesBackFromItsText) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 2000; ++i) {
    KernelKey key;
    key.signature = random_record<Signature>(random);
    key.algorithm.kernel = i % 2 ? "forward" : "decode";
    key.target = i % 3 ? "cpu-avx2" : "sm_90a";
    if (i % 3 == 0) key.algorithm.pipeline = "wgmma_tma";
#define REGARD_RANDOM(name, default_value, doc) \
  if (random() % 2 != 0) key.algorithm.name = static_cast<std::int64_t>(random() % 1000);
    REGARD_ALGORITHM_FIELDS(REGARD_RANDOM)
#undef REGARD_RANDOM
    const Result<KernelKey> parsed = parse_kernel_key(print(key));
    ASSERT_TRUE(parsed) << print(key) << "\n" << parsed.error().message;
    EXPECT_EQ(*parsed, key) << print(key);
  }
}

TEST(KernelKey, OfAGenericKernelPromisesEverySignature) {
  KernelKey key;
  key.algorithm.kernel = "generic_backward";
  key.target = "cpu-avx2";
  key.signature = canonical(*parse_signature("bwd fp16 d=64 softcap"), key.algorithm.kernel, key.target);
  EXPECT_EQ(print(key), "cpu-avx2 generic_backward | any bwd");
  const Result<KernelKey> parsed = parse_kernel_key(print(key));
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(*parsed, key);
  EXPECT_FALSE(parse_kernel_key("cpu-avx2 forward | any fwd"));
}

TEST(KernelKey, AnUnknownWordNamesTheNearest) {
  const Result<KernelKey> key = parse_kernel_key("cpu-avx2 forward blok_q=64 | fwd bf16 d=64");
  ASSERT_FALSE(key);
  EXPECT_THAT(key.error().message, HasSubstr("did you mean 'block_q'?"));
  EXPECT_FALSE(parse_kernel_key("cpu-avx2 forward fwd bf16 d=64"));
  EXPECT_FALSE(parse_kernel_key("cpu-avx2 | fwd bf16 d=64"));
  EXPECT_FALSE(parse_kernel_key("cpu-avx2 forward block_q=x | fwd bf16 d=64"));
}

TEST(Canonical, SignaturesCollapseToWhatAKernelDependsOn) {
  struct Case {
    std::string_view kernel, from, to;
  };
  const Case cases[] = {
      {"forward", "fwd bf16 d=64 lse varlen lengths sink batch_invariant deterministic", "fwd bf16 d=64"},
      {"forward", "fwd bf16 d=64 mask=causal", "fwd bf16 d=64 mask=window"},
      {"forward", "fwd bf16 d=64 mask=causal_top_left", "fwd bf16 d=64 mask=window"},
      {"forward", "fwd bf16 d=64 mask=window_top_left", "fwd bf16 d=64 mask=window"},
      {"forward", "fwd bf16 d=64 ranges", "fwd bf16 d=64 mask=window"},
      {"forward", "fwd bf16 d=64 bits", "fwd bf16 d=64 bits"},
      {"forward", "fwd bf16 d=64 bias=1h", "fwd bf16 d=64 bias=bh"},
      {"forward", "fwd bf16 d=64 bias=alibi_b", "fwd bf16 d=64 bias=alibi"},
      {"forward", "fwd bf16 d=64 softcap dropout dropout_mask", "fwd bf16 d=64 softcap dropout"},
      {"decode", "fwd fp16 d=64 dv=32 mask=causal lse", "fwd fp16 d=64 dv=32 mask=window"},
      {"backward", "bwd bf16 d=64 bias=11 dbias deterministic sink", "bwd bf16 d=64 bias=bh dbias"},
      {"combine", "fwd bf16 d=64 mask=causal lse bias=bh", "fwd bf16"},
      {"combine", "fwd fp8 d=64", "fwd bf16"},
      {"backward_delta", "bwd fp16 d=64 mask=causal dropout", "bwd fp16"},
      {"backward_convert", "bwd fp32 d=64 bias=bh dbias sink", "bwd fp32"},
      {"backward_convert", "bwd fp32 d=64 mask=causal sink", "bwd fp32"},
  };
  for (const Case& c : cases) {
    const Result<Signature> from = parse_signature(c.from);
    ASSERT_TRUE(from) << c.from << from.error().message;
    EXPECT_EQ(print(canonical(*from, c.kernel, "cpu-avx2")), c.to) << c.kernel << ": " << c.from;
  }
}

TEST(Canonical, GenericKernelsDependOnNothingButTheirStem) {
  std::mt19937_64 random(2);
  Signature forward = canonical(*parse_signature("fwd bf16 d=64"), "generic_forward", "cpu-avx2");
  for (int i = 0; i < 200; ++i) {
    Signature signature = random_record<Signature>(random);
    signature.pass = Pass::fwd;
    EXPECT_EQ(canonical(signature, "generic_forward", "cpu-avx2"), forward);
  }
}

TEST(Canonical, IsItsOwnCanonicalForm) {
  std::mt19937_64 random(3);
  for (int i = 0; i < 500; ++i) {
    const Signature signature = random_record<Signature>(random);
    for (std::string_view kernel :
         {"forward", "decode", "combine", "backward", "backward_delta", "backward_convert", "generic_forward",
          "generic_backward"}) {
      const Signature once = canonical(signature, kernel, "cpu-avx2");
      EXPECT_EQ(canonical(once, kernel, "cpu-avx2"), once) << kernel << ": " << print(signature);
    }
  }
}

}  // namespace
}  // namespace regard
