// The oracle's gradients against central differences of its own forward pass.
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "oracle/oracle.h"
#include "support/case.h"

namespace regard::test {
namespace {

/// The function that backward differentiates: the sum of O times grad_o, and of LSE times grad_lse.
double loss(const Problem& backward, const Case& c) {
  Problem forward = backward;
  forward.pass = Pass::fwd;
  forward.dbias = forward.dlse = forward.deterministic = false;
  forward.grads = {};
  forward.lse = true;
  const auto outputs = oracle::run(forward, c.arguments());
  EXPECT_TRUE(outputs) << outputs.error().message;
  const std::vector<double>& o = outputs->at(REGARD_O).value;
  double sum = 0;
  for (std::size_t i = 0; i < o.size(); ++i)
    if (!std::isnan(o[i])) sum += o[i] * c.get(REGARD_GRAD_O, static_cast<std::int64_t>(i));
  const std::vector<double>& lse = outputs->at(REGARD_LSE).value;
  for (std::size_t i = 0; backward.dlse && i < lse.size(); ++i)
    if (std::isfinite(lse[i])) sum += lse[i] * c.get(REGARD_GRAD_LSE, static_cast<std::int64_t>(i));
  return sum;
}

void check_gradient(Case& c, regard_role input, const std::vector<double>& gradient) {
  // Enough elements to cover every head and sequence, few enough to be quick.
  const std::int64_t count = c.count(input), step = std::max<std::int64_t>(count / 40, 1);
  for (std::int64_t i = 0; i < count; i += step) {
    const double value = c.get(input, i), h = 1e-3;
    c.set(input, i, value + h);
    const double high = c.get(input, i), above = loss(c.problem(), c);
    c.set(input, i, value - h);
    const double low = c.get(input, i), below = loss(c.problem(), c);
    c.set(input, i, value);
    const double difference = (above - below) / (high - low);
    const double exact = gradient[static_cast<std::size_t>(i)];
    // An element past a logical length has no gradient; nothing may depend on it.
    EXPECT_NEAR(difference, std::isnan(exact) ? 0 : exact, 2e-5 * (1 + std::fabs(difference)))
        << "gradient of " << role_name(input) << "[" << i << "]";
  }
}

class Gradients : public testing::TestWithParam<const char*> {};

TEST_P(Gradients, AreCentralDifferences) {
  for (const bool padded : {false, true}) {
    CaseOptions options;
    options.padded_rows = padded;
    Case c(GetParam(), options);
    SCOPED_TRACE(c.description());
    const auto outputs = oracle::run(c.problem(), c.arguments(), {2, 0, 0});
    ASSERT_TRUE(outputs) << outputs.error().message;
    check_gradient(c, REGARD_Q, outputs->at(REGARD_GRAD_Q).value);
    check_gradient(c, REGARD_K, outputs->at(REGARD_GRAD_K).value);
    check_gradient(c, REGARD_V, outputs->at(REGARD_GRAD_V).value);
    if (c.problem().dbias) check_gradient(c, REGARD_BIAS, outputs->at(REGARD_GRAD_BIAS).value);
    for (int i = 0; i < 8; ++i)
      if (tensor_use(c.problem(), grad_captured(i)) != REGARD_UNUSED)
        check_gradient(c, captured(i), outputs->at(grad_captured(i)).value);
    if (c.problem().sink) check_gradient(c, REGARD_SINK, outputs->at(REGARD_GRAD_SINK).value);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Features, Gradients,
    testing::Values(
        "bwd fp32 b=2 h=2 s=7 d=5", "bwd fp32 b=1 hq=6 hk=2 sq=5 sk=9 d=8 dv=3",
        "bwd fp32 b=1 h=2 sq=9 sk=5 d=4 mask=causal", "bwd fp32 b=1 h=2 sq=5 sk=9 d=4 mask=causal_top_left",
        "bwd fp32 b=1 h=2 sq=8 sk=11 d=4 mask=window:2,1,sink=2", "bwd fp32 b=2 h=2 s=6 d=4 softcap=1.5",
        "bwd fp32 b=2 h=2 s=6 d=4 softcap=0.7 sink mask=causal",
        "bwd fp32 b=2 h=3 sq=4 sk=6 d=4 softcap=0.7 bias=1h dbias mask=causal",
        "bwd fp32 b=2 h=2 sq=5 sk=7 d=4 softcap=0.7 bias=alibi_b dropout=0.3",
        "bwd fp32 b=2 h=3 sq=4 sk=6 d=4 bias=11 dbias", "bwd fp32 b=2 h=3 sq=4 sk=6 d=4 bias=1h dbias",
        "bwd fp32 b=2 h=3 sq=4 sk=6 d=4 bias=b1 dbias",
        "bwd fp32 b=2 h=3 sq=4 sk=6 d=4 bias=bh dbias mask=causal",
        "bwd fp32 b=2 h=2 sq=5 sk=7 d=4 bias=alibi",
        "bwd fp32 b=2 h=2 sq=5 sk=7 d=4 bias=alibi_b mask=causal", "bwd fp32 b=2 hq=4 hk=2 s=6 d=4 sink",
        "bwd fp32 b=2 h=2 s=9 d=4 dropout=0.3", "bwd fp32 b=1 h=2 s=9 d=4 dropout=0.5 sink bias=bh dbias",
        "bwd fp32 b=2 h=2 s=8 d=4 ranges", "bwd fp32 b=2 h=2 s=8 d=4 bits mask=causal",
        "bwd fp32 b=4 h=2 sq=6 sk=8 tq=17 tk=20 d=4 varlen mask=causal",
        "bwd fp32 b=4 h=2 sq=6 sk=8 d=4 varlen lengths sink",
        "bwd fp32 b=3 h=2 sq=6 sk=8 d=4 lengths mask=window:3,0 bias=bh dbias",
        "bwd fp32 b=3 h=2 sq=6 sk=8 d=4 varlen lengths ranges bits dropout=0.2 bias=1h dbias",
        "bwd fp32 b=1 h=1 s=5 d=3 scale=-0.7", "bwd fp32 b=2 hq=4 hk=2 sq=5 sk=7 d=4 dlse sink dropout=0.3",
        "bwd fp32 b=2 h=2 sq=6 sk=4 d=4 dlse mask=causal softcap=0.7 bias=1h dbias",
        "bwd fp32 b=4 h=2 sq=6 sk=8 d=4 varlen lengths dlse sink",
        "bwd fp32 b=2 hq=4 hk=2 sq=5 sk=7 d=4 score=s*0.5-w[h]*abs(kv-p) tensors=w:fp32[1] grads=w dlse",
        "bwd fp32 b=2 h=2 s=6 d=4 score=tanh(s)*g[q]+exp(-s*0.1)*t[q-kv+3] keep=kv<=q "
        "tensors=g:fp32[1],t:fp32[1] grads=g,t sink",
        "bwd fp32 b=2 h=2 sq=5 sk=9 d=4 score=where(kv<3,s*c*c,s+bias[b,0,q,kv]) "
        "tensors=c:fp32[0],bias:fp32[4] grads=c,bias dropout=0.3",
        "bwd fp32 b=3 h=2 sq=6 sk=8 d=4 varlen lengths score=sigmoid(s)/w[h]+log(1.5+s*s) "
        "tensors=w:fp32[1]"));

}  // namespace
}  // namespace regard::test
