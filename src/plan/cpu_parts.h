// What every CPU recipe begins and ends with.
#pragma once

#include "plan/plan.h"

namespace regard {

Plan start(const Problem&, const Target&, Family, const PlanOptions&);
/// Sizes the scratch for the hungriest stage on every thread and lays the workspace out.
Result<Plan> finish(Plan);

/// Operands of products are pairs of bf16 (kernels/cpu/product.h).
bool pairs(const Problem&, const Target&);

/// Cuts the keys into at most `splits` parts of a multiple of `unit` keys.
void split_keys(Plan&, std::int64_t splits, std::int64_t unit);

}  // namespace regard
