// Whether a kernel reads every bit pattern of an 8-bit type as the number that it is.
#pragma once

#include <string>

#include "support/case.h"

namespace regard::test {

/// A problem of one key, whose LSE is Q's first column and whose rows of O are V: both have all 256 patterns.
Case every_code(const std::string& dtype);

/// An empty string, or which patterns became another number. `scaled`: the kernel scales weights, which LSE
/// then contains with an error of its own.
std::string wrong_codes(const Case&, bool scaled = false);

}  // namespace regard::test
