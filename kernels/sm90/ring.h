// A position in a ring of stages.
#pragma once

#include "kernels/cuda/warp.h"

namespace regard {

template <i32 count>
struct Ring {
  i32 slot = 0;
  u32 parity = 0;
  REGARD_DEVICE void advance() {
    if (++slot < count) return;
    slot = 0;
    parity ^= 1;
  }
};

}  // namespace regard
