// The report behind regard_check.
#pragma once

#include <string>

#include "base/result.h"
#include "problem/problem.h"
#include "regard/regard.h"

namespace regard::oracle {

/// Compares the outputs in the tensors with the oracle's: JSON with "ok" and a row per output.
Result<std::string> check_report(const Problem&, const regard_arguments&, int threads);

}  // namespace regard::oracle
