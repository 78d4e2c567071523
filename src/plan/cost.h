// What a plan is expected to cost: floating-point operations and bytes moved, at the rates in the target's
// table.
#pragma once

#include "plan/plan.h"

namespace regard {

/// Seconds; good for choosing between candidates, not a promise.
double cost_seconds(const Plan&);

}  // namespace regard
