// What a plan is expected to cost.
#pragma once

#include "plan/plan.h"

namespace regard {

/// Seconds, from floating-point operations and bytes moved at the target's rates.
double cost_seconds(const Plan&);

}  // namespace regard
