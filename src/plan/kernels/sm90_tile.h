// Declarations shared by the host halves of the kernels for Hopper.
#pragma once

#include "kernels/sm90/boxes.h"
#include "plan/kernel.h"

namespace regard {

/// What a kernel's layout depends on, from the halves of its key.
inline Sm90TileShape sm90_tile_shape(const Signature& s, const Algorithm& a) {
  return {.bytes = static_cast<i64>(bytes_of(s.dtype)),
          .d = s.d,
          .dv = s.dv,
          .block_q = a.block_q,
          .block_k = a.block_k,
          .stages = a.stages};
}

}  // namespace regard
