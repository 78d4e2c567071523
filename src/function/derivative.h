// Gradients of a score, symbolically.
#pragma once

#include <vector>

#include "function/tree.h"

namespace regard::function {

/// The derivative of the score with respect to the number that one load reads.
struct LoadDerivative {
  NodeIndex load = none, derivative = none;
};

struct Derivatives {
  NodeIndex by_score = none;  ///< with respect to s
  std::vector<LoadDerivative> loads;
};

/// Adds the derivatives with respect to s and to all loads of the given tensors to the function's tree. A
/// derivative that is 0 everywhere is the constant 0. The derivative of `where` is that of the side that it
/// takes; at ties of min and max both sides count half; that of abs is 0 at 0; those of floor, ceil, round,
/// sign, int and conditions are 0 everywhere.
Derivatives derivatives(Function& function, const std::vector<int>& tensors);

}  // namespace regard::function
