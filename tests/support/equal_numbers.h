// Numbers that are all equal, huge or tiny: their rounding errors do not average out like those of random
// numbers.
#pragma once

#include <span>

#include "support/case.h"

namespace regard::test {

std::span<const Numbers> equal_numbers();

}  // namespace regard::test
