// From the caller's tensors and the plan to what a kernel is called with.
#pragma once

#include "kernels/arguments.h"
#include "plan/plan.h"
#include "regard/regard.h"

namespace regard {

/// The tensors must have passed check_tensors; `workspace` holds plan.workspace.total bytes.
Arguments bind(const Plan&, const regard_arguments&, void* workspace);

}  // namespace regard
