// From the caller's tensors and the plan to what a kernel is called with.
#pragma once

#include "kernels/arguments.h"
#include "plan/plan.h"
#include "regard/regard.h"

namespace regard {

/// What the plan alone says, the same in every call.
Arguments constants(const Plan&);
/// All of it, from `constants` of the same plan. The tensors must have passed check_tensors; `workspace`
/// holds plan.workspace.total bytes.
Arguments bind(const Plan&, const Arguments& constants, const regard_arguments&, void* workspace);
inline Arguments bind(const Plan& plan, const regard_arguments& given, void* workspace) {
  return bind(plan, constants(plan), given, workspace);
}

}  // namespace regard
