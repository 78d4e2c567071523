// What is used where the best plan cannot be.
#pragma once

#include <optional>

#include "plan/plan.h"

namespace regard {

/// The plan for when the best plan's kernels are not available or cannot read the tensors. On a CPU these are
/// the generic kernels, which interpret functions whose tensors a word would read; on a GPU those that take
/// any layout instead of those that use tensor maps. Nothing where `options`, which are those of the best
/// plan, exclude it.
std::optional<Plan> fallback_of(const Plan& best, PlanOptions options);

}  // namespace regard
