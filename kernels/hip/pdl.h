// Programmatic dependent launch, which AMD GPUs do not have: launches run one after the other.
#pragma once

#include "kernels/hip/wave.h"

namespace regard {

constexpr bool has_pdl = false;

REGARD_DEVICE void launch_dependent_grids() {}
REGARD_DEVICE void wait_on_dependent_grids() {}

}  // namespace regard
