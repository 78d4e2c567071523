// Runs a saved call again and compares what it computes.
#pragma once

#include <string>

#include "base/result.h"
#include "engine/prepared.h"

namespace regard {

/// Where `options` is empty, the saved call's own target, kernel and threads. The report is JSON
/// (docs/saved-calls.md); with `oracle`, it also judges both results by the fp64 oracle.
Result<std::string> rerun(const std::string& folder, const EngineOptions& options, bool oracle);

}  // namespace regard
