// How vectors of 16 bytes change places in the rows of a tile in shared memory.
#pragma once

#include "kernels/hip/wave.h"

namespace regard {

/// In bytes, for a row of whole lines of 128: eight lanes at a time read one vector each.
template <i32 row_bytes>
constexpr REGARD_INLINE i32 swizzle_of(i32 row) {
  return row % 8 * 16;
}

}  // namespace regard
