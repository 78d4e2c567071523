// Copies of 16 bytes from global to shared memory, through registers.
#pragma once

#include "kernels/hip/memory.h"
#include "kernels/portable/shared_operand.h"

namespace regard {

/// The most vectors of a tile that a thread keeps in registers while they are on their way. Larger tiles are
/// waited for at once, and so is every tile where operands take twice the registers.
constexpr i32 most_vectors_on_their_way = edge == 32 ? 16 : target::wmma_twice ? 0 : 4;

/// Loads a vector of 16 bytes: only the first `bytes` are read, the rest become zero. The address is aligned
/// to 16 bytes; with `whole_vectors`, `bytes` is 0 or 16.
REGARD_DEVICE void load_vector(u32 (&words)[4], const void* from, i32 bytes) {
#pragma unroll
  for (i32 i = 0; i < 4; ++i) words[i] = 0;
  if (bytes == 16) {
    using Vector = WordsOf<4>::Vector;
    const Vector all = *global(static_cast<const Vector*>(from));
#pragma unroll
    for (i32 i = 0; i < 4; ++i) words[i] = all[i];
  } else if constexpr (!whole_vectors) {
#pragma unroll
    for (i32 i = 0; i < 8; ++i)
      if (2 * i < bytes) words[i / 2] |= u32{global(static_cast<const u16*>(from))[i]} << 16 * (i % 2);
  }
}

/// Copies such a vector to shared memory. Both addresses are aligned to 16 bytes.
REGARD_DEVICE void copy_vector(u32 to, const void* from, i32 bytes) {
  u32 words[4];
  load_vector(words, from, bytes);
  store_vector(to, words);
}

/// Copies have arrived when copy_vector returns.
REGARD_DEVICE void end_copies() {}
template <i32 pending>
REGARD_DEVICE void wait_for_copies() {}

}  // namespace regard
