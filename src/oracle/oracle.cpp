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
    if (spec.use != REGARD_INPUT || role == REGARD_LSE) continue;
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
  if (writes_cache(problem) || problem.pass == Pass::merge)
    return refused("the oracle has no new tokens and no merge yet");
  if (const Status status = check_inputs(problem, arguments); !status)
    return tl::unexpected<Error>(status.error());
  const Inputs inputs(problem, arguments);
  return problem.pass == Pass::fwd ? forward(inputs, options) : backward(inputs, options);
}

}  // namespace regard::oracle
