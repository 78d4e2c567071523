// Gradients of a score, symbolically.
#pragma once

#include <vector>

#include "function/tree.h"

namespace regard::function {

/// The derivative of the score by the number that one load reads.
struct LoadDerivative {
  NodeIndex load = none, derivative = none;
};

struct Derivatives {
  NodeIndex slope = none;  ///< by s
  std::vector<LoadDerivative> loads;
};

/// Adds the derivatives by s and by all loads of the given tensors to the function's tree. A derivative that
/// is 0 everywhere is the constant 0. `where` has the derivative of the side that it takes, and nothing of
/// the other; at ties of min and max both sides count half; abs has 0 at 0; floor, ceil, round, sign, int and
/// conditions have 0 everywhere.
Derivatives derivatives(Function& function, const std::vector<int>& tensors);

}  // namespace regard::function
