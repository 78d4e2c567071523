// Attention from C++, forward and backward, against an installed Regard (see CMakeLists.txt).
#include <cmath>
#include <cstdio>
#include <regard/regard.hpp>
#include <vector>

namespace {

// Eight query heads share two key/value heads (GQA).
constexpr std::int64_t batch = 2, query_heads = 8, key_heads = 2, length = 128, dim = 64;

/// Our own tensor; the view that Regard gets does not copy it.
struct Floats {
  std::int64_t rows_heads;
  std::vector<float> values = std::vector<float>(static_cast<std::size_t>(batch * length * rows_heads * dim));
  regard::Tensor view() { return regard::fp32(values.data(), {batch, length, rows_heads, dim}); }
};

void fill(Floats& tensor, float phase) {
  for (std::size_t i = 0; i < tensor.values.size(); ++i) {
    tensor.values[i] = std::sin(phase + 0.37f * static_cast<float>(i));
  }
}

double dot(const Floats& a, const Floats& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.values.size(); ++i) sum += static_cast<double>(a.values[i]) * b.values[i];
  return sum;
}

}  // namespace

int main() try {
  const regard::Problem forward("fwd fp32 b=2 hq=8 hk=2 s=128 d=64 mask=causal lse");
  const regard::Problem backward("bwd fp32 b=2 hq=8 hk=2 s=128 d=64 mask=causal");

  Floats q{query_heads}, k{key_heads}, v{key_heads}, o{query_heads};
  std::vector<float> lse(batch * query_heads * length);
  fill(q, 0.1f);
  fill(k, 0.2f);
  fill(v, 0.3f);

  // One call plans (and remembers the plan), finds or compiles the kernels, and runs.
  regard::Arguments arguments;
  arguments.set(REGARD_Q, q.view()).set(REGARD_K, k.view()).set(REGARD_V, v.view()).set(REGARD_O, o.view());
  arguments.set(REGARD_LSE, regard::fp32(lse.data(), {batch, query_heads, length}));
  regard::attention(forward, arguments);

  // The same in two steps, for callers that keep plans and workspaces.
  Floats grad_o{query_heads}, grad_q{query_heads}, grad_k{key_heads}, grad_v{key_heads};
  fill(grad_o, 0.4f);
  arguments.set(REGARD_GRAD_O, grad_o.view()).set(REGARD_GRAD_Q, grad_q.view());
  arguments.set(REGARD_GRAD_K, grad_k.view()).set(REGARD_GRAD_V, grad_v.view());
  regard::Plan plan(backward);
  plan.prepare();
  const regard::Workspace workspace(plan);
  plan.run(arguments, workspace.data(), workspace.bytes());

  // O is linear in V, so <dV, V> = <dO, O>, whatever the numbers are.
  const double left = dot(grad_v, v), right = dot(grad_o, o);
  std::printf("<dV, V> = %.6f   <dO, O> = %.6f\n", left, right);
  const bool equal = std::abs(left - right) < 1e-3 * std::max(1.0, std::abs(right));

  // A call that cannot work throws an exception with one sentence.
  bool refused = false;
  try {
    regard::Problem("fwd bf16 hq=8 hk=3 s=128 d=64");
  } catch (const regard::error& error) {
    refused = error.status() == REGARD_INVALID;
    std::printf("refused: %s\n", error.what());
  }
  return equal && refused ? 0 : 1;
} catch (const regard::error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
