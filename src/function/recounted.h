// A function apart from others: its numbers and tensors are its own.
#pragma once

#include <vector>

#include "function/tree.h"

namespace regard::function {

/// A function whose numbers and tensors are counted in the order in which it reads them; tensors are t0, t1,
/// … So neither names nor what another function reads matter.
struct Recounted {
  Function function;
  std::vector<int> numbers, tensors;  ///< which of the given ones each is
};

Recounted recounted(const Function& function);

}  // namespace regard::function
