// What answers where the best plan cannot.
#pragma once

#include <optional>

#include "plan/plan.h"

namespace regard {

/// The plan for when the best plan's kernels are not to be had or, on a GPU, cannot read the tensors as they
/// lie: the generic kernels, or those that take tensors as they are in place of those that take maps of them.
/// `options` are those of the best plan.
std::optional<Plan> fallback_of(const Plan& best, PlanOptions options);

}  // namespace regard
