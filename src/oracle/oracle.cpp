#include "oracle/oracle.h"

#include <fmt/format.h>

#include <algorithm>

#include "oracle/passes.h"

namespace regard::oracle {
namespace {

/// The oracle is also called without outputs, so it checks only its inputs.
Status check_inputs(const Problem& problem, const regard_arguments& arguments) {
  for (int i = 0; i < REGARD_ROLE_COUNT; ++i) {
    const auto role = static_cast<regard_role>(i);
    const TensorSpec spec = tensor_spec(problem, role);
    // Backward computes LSE itself.
    const bool read = spec.use == REGARD_INPUT || spec.use == REGARD_INPUT_OUTPUT;
    if (!read || (role == REGARD_LSE && problem.pass == Pass::bwd)) continue;
    const regard_tensor& tensor = arguments.tensor[i];
    const bool empty = std::any_of(spec.shape.begin(), spec.shape.end(), [](auto n) { return n == 0; });
    if (!tensor.data && !empty)
      return invalid(
          fmt::format("the oracle needs tensor '{}', which '{}' reads", role_name(role), print(problem)));
    if (tensor.data && tensor.rank != static_cast<std::int32_t>(spec.shape.size()))
      return invalid(fmt::format("tensor '{}' has rank {}; it should be {}", role_name(role), tensor.rank,
                                 spec.shape.size()));
  }
  return {};
}

}  // namespace

Result<Outputs> run(const Problem& problem, const regard_arguments& arguments, const Options& options) {
  if (const Status status = check_inputs(problem, arguments); !status)
    return tl::unexpected<Error>(status.error());
  const Inputs inputs(problem, arguments);
  Outputs outputs;
  switch (problem.pass) {
    case Pass::fwd:
      return forward(inputs, options);
    case Pass::bwd:
      return backward(inputs, options);
    case Pass::append:
      append(inputs, outputs);
      return outputs;
    case Pass::merge:
      return merge(inputs);
  }
  return outputs;
}

}  // namespace regard::oracle
