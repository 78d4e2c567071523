// 16-byte copies from global to shared memory that run asynchronously, in groups; before sm_80, ordinary
// copies.
#pragma once

#include "kernels/cuda/memory.h"

namespace regard {

/// How many vectors of a tile a thread keeps in registers while they are on their way: none here.
constexpr i32 most_vectors_on_their_way = 0;

/// Loads a vector of 16 bytes: only the first `bytes` are read, the rest become zero. The address is aligned
/// to 16 bytes.
REGARD_DEVICE void load_vector(u32 (&words)[4], const void* from, i32 bytes) {
#pragma unroll
  for (i32 i = 0; i < 4; ++i) words[i] = 0;
  if (bytes == 16) {
    const uint4 all = *static_cast<const uint4*>(from);
    words[0] = all.x, words[1] = all.y, words[2] = all.z, words[3] = all.w;
  } else {
#pragma unroll
    for (i32 i = 0; i < 8; ++i)
      if (2 * i < bytes) words[i / 2] |= u32{static_cast<const u16*>(from)[i]} << 16 * (i % 2);
  }
}

/// Copies such a vector to shared memory. Both addresses are aligned to 16 bytes.
REGARD_DEVICE void copy_vector(u32 to, const void* from, i32 bytes) {
  if constexpr (target::async_copy) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
  } else {
    u32 words[4];
    load_vector(words, from, bytes);
    store_vector(to, words);
  }
}

/// Ends a group, which can be empty.
REGARD_DEVICE void end_copies() {
  if constexpr (target::async_copy) asm volatile("cp.async.commit_group;" ::: "memory");
}

/// Waits until at most the last `pending` groups of this thread are still running.
template <int pending>
REGARD_DEVICE void wait_for_copies() {
  if constexpr (target::async_copy) asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory");
}

}  // namespace regard
