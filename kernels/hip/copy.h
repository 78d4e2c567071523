// Copies of 16 bytes from global to shared memory.
#pragma once

#include "kernels/hip/memory.h"

namespace regard {

/// Only the first `bytes` are read, the rest become zero. Both addresses are aligned to 16 bytes.
REGARD_DEVICE void copy_vector(u32 to, const void* from, i32 bytes) {
  u32 words[4] = {};
  if (bytes == 16) {
    using Vector = WordsOf<4>::Vector;
    const Vector all = *global(static_cast<const Vector*>(from));
#pragma unroll
    for (i32 i = 0; i < 4; ++i) words[i] = all[i];
  } else {
#pragma unroll
    for (i32 i = 0; i < 8; ++i)
      if (2 * i < bytes) words[i / 2] |= u32{global(static_cast<const u16*>(from))[i]} << 16 * (i % 2);
  }
  store_vector(to, words);
}

/// Copies have arrived when copy_vector returns.
REGARD_DEVICE void end_copies() {}
template <i32 pending>
REGARD_DEVICE void wait_for_copies() {}

}  // namespace regard
