// Programmatic dependent launch: of two launches in a stream the second begins while the first one ends, on
// chips from sm_90 on. Elsewhere one follows the other, and there is nothing to do.
#pragma once

#include "kernels/cuda/warp.h"

namespace regard {

/// A launch that may overlap this one takes the room that is left, once all blocks of this one have called
/// this.
REGARD_DEVICE void launch_dependent_grids() {
  if constexpr (target::pdl) asm volatile("griddepcontrol.launch_dependents;");
}

/// Waits until the launch before has ended and what it wrote can be read. Every block of a launch that
/// overlaps another has to wait, also one that reads nothing: what comes next counts on both having ended.
REGARD_DEVICE void wait_on_dependent_grids() {
  if constexpr (target::pdl) asm volatile("griddepcontrol.wait;" ::: "memory");
}

}  // namespace regard
