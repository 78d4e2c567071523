// Numbers that are alike, huge or tiny: their roundings do not average out as those of random numbers do.
#pragma once

#include <span>

#include "support/case.h"

namespace regard::test {

std::span<const Numbers> alike_numbers();

}  // namespace regard::test
