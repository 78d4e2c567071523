// Keys: their text parses back, and signatures collapse to the fields that a kernel depends on.
#include "plan/kernel.h"

#include <gmock/gmock.h>

#include "../problem/random_problem.h"

namespace regard {
namespace {

using testing::HasSubstr;

Signature canonical(const Signature& signature, std::string_view kernel) {
  return find_kernel(kernel)->depends_on(signature);
}

TEST(KernelKey, ParsesBackFromItsText) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 2000; ++i) {
    KernelKey key;
    key.signature = random_record<Signature>(random);
    key.algorithm.kernel = i % 2 ? "cpu_forward" : "sm90_forward";
    key.target = i % 3 ? "cpu-avx2" : "sm_90a";
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
  key.algorithm.kernel = "cpu_generic_backward";
  key.target = "cpu-avx2";
  key.signature = canonical(*parse_signature("bwd fp16 d=64 softcap"), key.algorithm.kernel);
  EXPECT_EQ(print(key), "cpu-avx2 cpu_generic_backward | any bwd");
  const Result<KernelKey> parsed = parse_kernel_key(print(key));
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(*parsed, key);
  EXPECT_FALSE(parse_kernel_key("cpu-avx2 cpu_forward | any fwd"));
}

TEST(KernelKey, AnUnknownWordNamesTheNearest) {
  const Result<KernelKey> key = parse_kernel_key("cpu-avx2 cpu_forward blok_q=64 | fwd bf16 d=64");
  ASSERT_FALSE(key);
  EXPECT_THAT(key.error().message, HasSubstr("did you mean 'block_q'?"));
  EXPECT_FALSE(parse_kernel_key("cpu-avx2 cpu_forward fwd bf16 d=64"));
  EXPECT_FALSE(parse_kernel_key("cpu-avx2 | fwd bf16 d=64"));
  EXPECT_FALSE(parse_kernel_key("cpu-avx2 cpu_forward block_q=x | fwd bf16 d=64"));
}

TEST(Canonical, SignaturesCollapseToWhatAKernelDependsOn) {
  struct Case {
    std::string_view kernel, from, to;
  };
  const Case cases[] = {
      {"cpu_forward", "fwd bf16 d=64 lse varlen lengths sink batch_invariant deterministic", "fwd bf16 d=64"},
      {"cpu_forward", "fwd bf16 d=64 mask=causal", "fwd bf16 d=64 mask=window"},
      {"cpu_forward", "fwd bf16 d=64 mask=causal_top_left", "fwd bf16 d=64 mask=window"},
      {"cpu_forward", "fwd bf16 d=64 mask=window_top_left", "fwd bf16 d=64 mask=window"},
      {"cpu_forward", "fwd bf16 d=64 ranges", "fwd bf16 d=64 mask=window"},
      {"sm90_forward", "fwd bf16 d=64 ranges", "fwd bf16 d=64 mask=window ranges"},
      {"cpu_forward", "fwd bf16 d=64 bits", "fwd bf16 d=64 bits"},
      {"cpu_forward", "fwd bf16 d=64 bias=1h", "fwd bf16 d=64 bias=bh"},
      {"cpu_forward", "fwd bf16 d=64 bias=alibi_b", "fwd bf16 d=64 bias=alibi"},
      {"cpu_forward", "fwd bf16 d=64 bias=1h bias_type=fp32", "fwd bf16 d=64 bias=bh"},
      {"portable_forward", "fwd bf16 d=64 bias=1h bias_type=fp32", "fwd bf16 d=64 bias=bh bias_type=fp32"},
      {"portable_forward", "fwd fp32 d=64 bias=1h bias_type=fp32", "fwd fp32 d=64 bias=bh"},
      {"portable_forward", "fwd fp8 d=64 bias=1h", "fwd fp8 d=64 bias=bh"},
      {"portable_forward", "fwd fp16 d=64 bias_type=fp32", "fwd fp16 d=64"},
      {"portable_forward", "fwd fp16 d=64 lengths paged table=sglang left_padding", "fwd fp16 d=64 paged"},
      {"portable_forward", "fwd fp16 kv=int8 d=64 descale=page", "fwd fp16 d=64 kv=int8 descale=token paged"},
      {"cpu_forward", "fwd bf16 d=192 dv=128 kv=fp8 descale=columns latent k_rope lengths",
       "fwd bf16 d=192 dv=128 kv=fp8 descale=columns latent k_rope"},
      {"portable_forward", "fwd bf16 d=192 dv=128 kv=fp8 descale=columns latent k_rope lengths",
       "fwd bf16 d=192 dv=128 kv=fp8 descale=columns latent k_rope paged"},
      {"cpu_forward", "fwd bf16 d=64 softcap dropout dropout_mask row_max", "fwd bf16 d=64 softcap dropout"},
      {"cpu_decode", "fwd fp16 d=64 dv=32 mask=causal lse", "fwd fp16 d=64 dv=32 mask=window"},
      {"cpu_decode", "fwd bf16 d=64 varlen lengths left_padding table=sglang", "fwd bf16 d=64"},
      {"cpu_decode", "fwd bf16 d=64 kv=int8 descale=head paged table=sglang",
       "fwd bf16 d=64 kv=int8 descale=tensor paged"},
      {"cpu_forward", "fwd bf16 d=64 kv=fp8 descale=head", "fwd bf16 d=64 kv=fp8"},
      {"cpu_forward", "fwd bf16 d=64 kv=int8 descale=page paged kv_layout=vectorized left_padding",
       "fwd bf16 d=64 kv=int8 descale=token kv_layout=vectorized paged"},
      {"cpu_backward", "bwd bf16 d=64 bias=11 dbias deterministic sink", "bwd bf16 d=64 bias=bh dbias"},
      {"cpu_combine", "fwd bf16 d=64 mask=causal lse bias=bh", "fwd bf16"},
      {"cpu_combine", "fwd fp8 d=64", "fwd bf16"},
      {"cpu_combine", "fwd fp16 d=64 bias=11 bias_type=fp32", "fwd fp16"},
      {"cpu_backward_delta", "bwd fp16 d=64 mask=causal dropout", "bwd fp16"},
      {"cpu_backward_convert", "bwd fp32 d=64 bias=bh dbias sink", "bwd fp32"},
      {"cpu_backward_convert", "bwd fp32 d=64 mask=causal sink", "bwd fp32"},
      {"portable_backward", "bwd bf16 d=64 bias=11 bias_type=fp32 dbias",
       "bwd bf16 d=64 bias=bh bias_type=fp32 dbias"},
      {"portable_backward_convert", "bwd fp16 d=64 bias=11 bias_type=fp32 dbias", "bwd fp16"},
      {"sm90_forward", "fwd fp16 d=64 bias_type=fp32", "fwd fp16 d=64"},
      {"sm90_backward", "bwd fp16 d=64 ranges", "bwd fp16 d=64 mask=window bits"},
      {"sm90_backward", "bwd fp16 d=64 bits", "bwd fp16 d=64 mask=window bits"},
      {"sm90_forward", "fwd fp16 d=64 lengths batch_invariant", "fwd fp16 d=64 batch_invariant"},
      {"portable_combine", "fwd fp16 d=64 lengths batch_invariant", "fwd fp16 batch_invariant"},
      {"portable_combine", "fwd fp16 d=64 lse row_max", "fwd fp16 row_max"},
      {"portable_decode", "fwd fp16 d=64 lse row_max", "fwd fp16 d=64 row_max paged"},
      {"sm90_forward", "fwd fp16 d=64 lse row_max", "fwd fp16 d=64 row_max"},
  };
  for (const Case& c : cases) {
    const Result<Signature> from = parse_signature(c.from);
    ASSERT_TRUE(from) << c.from << from.error().message;
    EXPECT_EQ(print(canonical(*from, c.kernel)), c.to) << c.kernel << ": " << c.from;
  }
}

TEST(Canonical, GenericKernelsDependOnNothingButTheirStem) {
  std::mt19937_64 random(2);
  Signature forward = canonical(*parse_signature("fwd bf16 d=64"), "cpu_generic_forward");
  for (int i = 0; i < 200; ++i) {
    Signature signature = random_record<Signature>(random);
    signature.pass = Pass::fwd;
    EXPECT_EQ(canonical(signature, "cpu_generic_forward"), forward);
  }
}

TEST(Canonical, IsItsOwnCanonicalForm) {
  std::mt19937_64 random(3);
  for (int i = 0; i < 500; ++i) {
    const Signature signature = random_record<Signature>(random);
    for (const Kernel* kernel : kernels()) {
      const Signature once = kernel->depends_on(signature);
      EXPECT_EQ(kernel->depends_on(once), once) << kernel->name << ": " << print(signature);
    }
  }
}

}  // namespace
}  // namespace regard
