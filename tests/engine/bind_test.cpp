// How the caller's tensors are described to kernels.
#include "engine/bind.h"

#include <gtest/gtest.h>

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
        const Rows rows = bind(plan, arguments).grad_bias;
        EXPECT_EQ(rows.batch != 0, has_batches(bias)) << word(bias) << " stride " << stride;
        EXPECT_EQ(rows.head != 0, has_heads(bias)) << word(bias) << " stride " << stride;
      }
    }
  }
}

}  // namespace
}  // namespace regard
