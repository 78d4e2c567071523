// Grids, shared memory and workspace of GPU kernels.
#pragma once

#include "plan/plan.h"

namespace regard {

Result<Plan> gpu_forward(const Problem&, const Target&, const Target::Tile&, const PlanOptions&);
/// Of the portable kernels: all keys at once, or in parts that are merged.
Result<Plan> portable_forward(const Problem&, const Target&, const Target::Tile&, const PlanOptions&);
Result<Plan> portable_forward_split(const Problem&, const Target&, const Target::Tile&, const PlanOptions&);

}  // namespace regard
