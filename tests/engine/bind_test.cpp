// How the caller's tensors are described to kernels.
#include "engine/bind.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "problem/tensors.h"

namespace regard {
namespace {

// Kernels derive from the gradient's strides whether batches and heads share the bias. The strides of empty
// tensors have no meaning: NumPy gives 0, and a caller may leave them out.
TEST(Bind, TheProblemSaysWhatSharesAnEmptyBiasGradient) {
  for (const Bias bias : {Bias::one_one, Bias::one_head, Bias::batch_one, Bias::batch_head}) {
    Plan plan;
    plan.problem = parse("bwd fp32 b=2 h=2 sq=64 sk=0 d=64 dbias").value();
    plan.problem.bias = bias;
    const TensorSpec spec = tensor_spec(plan.problem, REGARD_GRAD_BIAS);
    for (const std::int64_t stride : {0, 1, 1000}) {
      for (const bool given : {false, true}) {
        float nothing = 0;
        regard_arguments arguments = REGARD_ARGUMENTS_INIT;
        regard_tensor& tensor = arguments.tensor[REGARD_GRAD_BIAS];
        if (given) tensor = {&nothing, REGARD_FP32, 4, {}, {stride, stride, stride, stride}};
        for (int i = 0; given && i < 4; ++i) tensor.shape[i] = spec.shape[i];
        const Rows rows = bind(plan, arguments, nullptr).grad_bias;
        EXPECT_EQ(rows.batch != 0, has_batches(bias)) << word(bias) << " stride " << stride;
        EXPECT_EQ(rows.head != 0, has_heads(bias)) << word(bias) << " stride " << stride;
      }
    }
  }
}

Rows factors_of(std::string_view words, const std::vector<std::int64_t>& shape,
                const std::vector<std::int64_t>& strides) {
  Plan plan;
  plan.problem = parse("fwd fp16 b=2 hq=4 hk=2 sq=3 sk=33 kv=int8 " + std::string(words) +
                       (words.find(" d=") != std::string_view::npos ? "" : " d=64"))
                     .value();
  float factor = 1;
  regard_arguments arguments = REGARD_ARGUMENTS_INIT;
  regard_tensor& tensor = arguments.tensor[REGARD_DESCALE_K];
  tensor.data = &factor, tensor.dtype = REGARD_FP32, tensor.rank = static_cast<std::int32_t>(shape.size());
  std::ranges::copy(shape, tensor.shape);
  std::ranges::copy(strides, tensor.strides);
  return bind(plan, arguments, nullptr).descale_k;
}

// They are indexed like K: by sequence or page, head and row. Those of a whole head or page have no rows.
TEST(Bind, FactorsLieLikeTheirKeys) {
  struct Case {
    std::string_view words;
    std::vector<std::int64_t> shape, strides;
    Rows rows;
  };
  constexpr std::string_view columns = "descale=columns latent k_rope d=576 dv=512",
                             columns_of_packed = "descale=columns latent k_rope d=576 dv=512 varlen tk=40";
  const Case cases[] = {
      {"descale=tensor", {1}, {7}, {nullptr, 0, 0, 0}},
      {"descale=head", {2, 2}, {9, 5}, {nullptr, 9, 5, 0}},
      {"descale=head", {1, 2}, {9, 5}, {nullptr, 0, 5, 0}},
      {"descale=page paged=16", {6, 2}, {9, 5}, {nullptr, 9, 5, 0}},
      {"descale=token", {2, 33, 2}, {90, 3, 1}, {nullptr, 90, 1, 3}},
      {"descale=token paged=16", {6, 16, 2}, {90, 3, 1}, {nullptr, 90, 1, 3}},
      {"descale=token varlen tk=40", {40, 2}, {3, 1}, {nullptr, 0, 1, 3}},
      {columns, {2, 33, 2, 4}, {900, 20, 7, 1}, {nullptr, 900, 7, 20}},
      {columns_of_packed, {40, 2, 4}, {20, 7, 1}, {nullptr, 0, 7, 20}},
  };
  for (const Case& c : cases) {
    const Rows rows = factors_of(c.words, c.shape, c.strides);
    EXPECT_EQ(rows.batch, c.rows.batch) << c.words;
    EXPECT_EQ(rows.head, c.rows.head) << c.words;
    EXPECT_EQ(rows.row, c.rows.row) << c.words;
  }
}

// Vectorized pages: 16 bytes of a key's columns, or of a column's keys, lie together.
TEST(Bind, VectorizedPages) {
  Plan plan;
  plan.problem = parse("fwd fp16 b=1 hq=4 hk=2 sq=3 sk=33 d=64 dv=32 paged=16 kv_layout=vectorized").value();
  const TensorSpec k = tensor_spec(plan.problem, REGARD_K), v = tensor_spec(plan.problem, REGARD_V);
  float nothing = 0;
  regard_arguments arguments = REGARD_ARGUMENTS_INIT;
  for (const TensorSpec* spec : {&k, &v}) {
    regard_tensor& tensor = arguments.tensor[spec->role];
    tensor.data = &nothing, tensor.rank = 4;
    std::ranges::copy(spec->shape, tensor.shape);
    std::ranges::copy(spec->strides, tensor.strides);
  }
  const Arguments a = bind(plan, arguments, nullptr);
  // K [3, 2, 8, 128] of 8 elements together, V [3, 2, 2, 256]
  EXPECT_EQ(std::vector({a.k.batch, a.k.head, a.cache.k_chunk, a.k.row}),
            std::vector<i64>({2048, 1024, 128, 8}));
  EXPECT_EQ(std::vector({a.v.batch, a.v.head, a.cache.v_chunk}), std::vector<i64>({1024, 512, 256}));
}

}  // namespace
}  // namespace regard
