// From a plan's functions and the captured tensors of a call to what a kernel interprets.
#pragma once

#include "plan/plan.h"
#include "regard/regard.h"

namespace regard {

/// Writes them into the plan's part of the workspace; nothing for a plan without functions. The tensors must
/// have passed check_tensors.
void bind_function(const Plan&, const regard_arguments&, void* workspace);

}  // namespace regard
