// Tuning records: what was measured to be best. The seam for `regard tune`; there are no records yet.
#pragma once

#include <string>

#include "plan/plan.h"

namespace regard {

/// Name of the candidate (name_of) that was fastest for problems like this one; empty when nothing is known.
inline std::string tuned_candidate(const Problem&, const Target&) {
  return {};
}

}  // namespace regard
