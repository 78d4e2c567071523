// Grids, shared memory and workspace of GPU kernels.
#pragma once

#include "plan/plan.h"

namespace regard {

Result<Plan> gpu_forward(const Problem&, const Target&, const Target::Tile&, const PlanOptions&);

}  // namespace regard
