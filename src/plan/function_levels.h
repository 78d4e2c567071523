// How often each operation of a function is needed.
#pragma once

#include <string>

#include "plan/function_steps.h"

namespace regard {

/// For example "1 operation for each row, 2 for each pair". Operations are counted once for all pairs of rows
/// and keys for which their operands are the same; loads count as operations.
std::string operations_by_level(const FunctionSteps&);

}  // namespace regard
