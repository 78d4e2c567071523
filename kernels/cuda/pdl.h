// Programmatic dependent launch: the second of two launches in a stream begins while the first one ends, on
// GPUs from sm_90 on. Elsewhere launches run one after the other, and these functions do nothing.
#pragma once

#include "kernels/cuda/warp.h"

namespace regard {

constexpr bool has_pdl = target::pdl;

/// Once all blocks of this launch have called this, a dependent launch may start and use the remaining
/// resources.
REGARD_DEVICE void launch_dependent_grids() {
  if constexpr (has_pdl) asm volatile("griddepcontrol.launch_dependents;");
}

/// Waits until the previous launch has ended and its writes are visible. Every block of a launch that
/// overlaps another has to wait, even one that reads nothing: the launch after it relies on both having
/// ended.
REGARD_DEVICE void wait_on_dependent_grids() {
  if constexpr (has_pdl) asm volatile("griddepcontrol.wait;" ::: "memory");
}

}  // namespace regard
