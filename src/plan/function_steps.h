// The functions of a problem as the steps that the generic kernels interpret.
#pragma once

#include <initializer_list>
#include <vector>

#include "kernels/function/steps.h"
#include "problem/problem.h"

namespace regard {

/// The same in every call of a problem, where the generic kernels interpret all functions or the mask alone.
struct FunctionSteps {
  std::vector<FunctionStep> steps;
  std::vector<FunctionDerivative> derivatives;
  FunctionCall call{};  ///< without pointers and tensors

  std::int64_t bytes() const {
    return static_cast<std::int64_t>(sizeof call + steps.size() * sizeof(FunctionStep) +
                                     derivatives.size() * sizeof(FunctionDerivative));
  }
};

/// The steps of a problem that has a function; in bwd with the derivatives.
Result<FunctionSteps> function_steps(const Problem&);

/// The steps of the mask of a problem that has `keep`, without those of the score.
Result<FunctionSteps> mask_steps(const Problem&);

/// The steps of the range of keys that each row sees; fails where `keep` is not one (function/row_range.h).
Result<FunctionSteps> range_steps(const Problem&);
/// The same for a signature's example, as numbers of its own are not known.
Result<FunctionSteps> range_steps_of_any_numbers(const Problem&);

/// Whether steps read one of these.
bool reads(const FunctionSteps&, std::initializer_list<function::Variable>);

}  // namespace regard
