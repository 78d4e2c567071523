// How vectors of 16 bytes change places in the rows of a tile in shared memory.
#pragma once

#include "kernels/cuda/warp.h"

namespace regard {

/// In bytes, for a row of whole lines of 128: ldmatrix reads one vector of each of eight rows at a time.
template <i32 row_bytes>
constexpr REGARD_INLINE i32 swizzle_of(i32 row) {
  return row % 8 * 16;
}

}  // namespace regard
