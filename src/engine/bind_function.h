// From a plan's functions and the captured tensors of a call to what a kernel interprets.
#pragma once

#include "plan/plan.h"
#include "regard/regard.h"

namespace regard {

/// On a CPU: writes them into the plan's part of the workspace; nothing for a plan without functions. The
/// tensors must have passed check_tensors.
void bind_function(const Plan&, const regard_arguments&, void* workspace);

/// On a GPU: adds the tensors to the schedule of the stage that writes a mask, if it is one.
void bind_mask(const Plan&, const Stage&, const regard_arguments&, std::byte* schedule);

}  // namespace regard
