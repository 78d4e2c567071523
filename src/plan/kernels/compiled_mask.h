// What the stages that are compiled for a mask share: their keys, and what they read in a call.
#pragma once

#include "kernels/portable/mask_call.h"
#include "problem/problem.h"

namespace regard {

/// The function and the types of its tensors.
Signature mask_function(const Signature&);

/// The numbers of the problem, and which of its tensors the kernel's are.
MaskSchedule mask_schedule(const Problem&);

}  // namespace regard
