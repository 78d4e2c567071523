// From the caller's tensors and the plan to the arguments of a kernel.
#pragma once

#include <cstddef>

#include "kernels/arguments.h"
#include "plan/plan.h"
#include "regard/regard.h"

namespace regard {

/// What depends only on the plan and is the same in every call.
Arguments constants(const Plan&);
/// All arguments, from `constants` of the same plan. The tensors must have passed check_tensors.
Arguments bind(const Plan&, const Arguments& constants, const regard_arguments&, void* workspace);
inline Arguments bind(const Plan& plan, const regard_arguments& given, void* workspace) {
  return bind(plan, constants(plan), given, workspace);
}

/// The arguments of a stage's kernel: KernelArguments with its own schedule.
struct BoundArguments {
  Arguments shared;
  alignas(Arguments) std::byte schedule[Schedule::most_bytes];  // as Schedule::write writes it
};
static_assert(offsetof(BoundArguments, schedule) == sizeof(Arguments));

}  // namespace regard
