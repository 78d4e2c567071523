// Numbers without the spread of random ones: equal throughout or by rows, of one sign, huge or tiny. Their
// rounding errors do not average out like those of random numbers.
#pragma once

#include <span>

#include "support/case.h"

namespace regard::test {

std::span<const Numbers> equal_numbers();

}  // namespace regard::test
