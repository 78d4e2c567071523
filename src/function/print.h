// From a function's tree to its text.
#pragma once

#include <string>

#include "function/tree.h"

namespace regard::function {

/// The one text of all functions with an equal tree, without spaces. Parts that occur several times are local
/// names a, c, d, … in the order in which they are needed. `parse` makes the same tree of it.
std::string print(const Function& function);

/// `slope:fp32[1],doc:int32[2]`.
std::string print(const std::vector<Captured>& tensors);

/// fp32 with as many digits as it takes to read the same number again, and always with a point, an exponent
/// or a word.
std::string text_of_real(float x);

}  // namespace regard::function
