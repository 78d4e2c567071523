// What is used where the best plan cannot be.
#pragma once

#include <optional>

#include "plan/plan.h"

namespace regard {

/// The plan for when the best plan's kernels are not available or, on a GPU, cannot read the tensors in their
/// layout: the generic kernels, or those that take any layout instead of those that use tensor maps.
/// `options` are those of the best plan.
std::optional<Plan> fallback_of(const Plan& best, PlanOptions options);

}  // namespace regard
