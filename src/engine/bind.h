// From the caller's tensors and the plan to what a kernel is called with.
#pragma once

#include <cstddef>

#include "kernels/arguments.h"
#include "plan/plan.h"
#include "regard/regard.h"

namespace regard {

/// What the plan alone says, the same in every call.
Arguments constants(const Plan&);
/// All of it, from `constants` of the same plan. The tensors must have passed check_tensors.
Arguments bind(const Plan&, const Arguments& constants, const regard_arguments&);
inline Arguments bind(const Plan& plan, const regard_arguments& given) {
  return bind(plan, constants(plan), given);
}

/// What a stage's kernel is called with: KernelArguments of its own schedule.
struct BoundArguments {
  Arguments shared;
  alignas(Arguments) std::byte schedule[Schedule::most_bytes];  // as Schedule::write leaves it
};
static_assert(offsetof(BoundArguments, schedule) == sizeof(Arguments));

}  // namespace regard
