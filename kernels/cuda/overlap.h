// Launches in a stream of which the second begins while the first one ends: on chips from sm_90 on, which
// have tensor memory units too. Elsewhere one follows the other, and there is nothing to do.
#pragma once

#include "kernels/cuda/warp.h"

namespace regard {

/// A launch that was made to overlap this one may take the room that is left once all blocks have said so.
REGARD_DEVICE void let_next_launch_begin() {
  if constexpr (target::tma) asm volatile("griddepcontrol.launch_dependents;");
}

/// Until the launch before has ended and what it wrote can be read. Every block of a launch that overlaps
/// another has to wait, also one that reads nothing: what comes next counts on both having ended.
REGARD_DEVICE void wait_for_launch_before() {
  if constexpr (target::tma) asm volatile("griddepcontrol.wait;" ::: "memory");
}

}  // namespace regard
