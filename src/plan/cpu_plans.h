// Grids, scratch and workspace of the CPU kernels: one function per recipe, one file per kernel.
#pragma once

#include "plan/plan.h"

namespace regard {

Result<Plan> cpu_forward(const Problem&, const Target&, const Target::Tile&, const PlanOptions&);
Result<Plan> cpu_forward_split(const Problem&, const Target&, const Target::Tile&, const PlanOptions&);
Result<Plan> cpu_decode(const Problem&, const Target&, const Target::Tile&, const PlanOptions&);
Result<Plan> cpu_generic_forward(const Problem&, const Target&, const Target::Tile&, const PlanOptions&);
Result<Plan> cpu_generic_backward(const Problem&, const Target&, const Target::Tile&, const PlanOptions&);
Result<Plan> cpu_backward(const Problem&, const Target&, const Target::Tile&, const PlanOptions&);

/// Query rows that share a K/V head: what the decode kernel handles at once.
std::int64_t group_rows(const Problem&);

}  // namespace regard
