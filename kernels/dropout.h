// What dropout needs in all GPU kernels: the random generator of a head, and which bytes keep a weight.
#pragma once

#include "kernels/arguments.h"
#include "kernels/machine/random.h"

namespace regard {

/// The random generator of a head.
REGARD_DEVICE philox::Random random_of(const Arguments& a, i64 batch, i64 head) {
  return philox::Random(a.seeds ? a.seeds[0] : a.seed, a.seeds ? a.seeds[1] : a.offset, batch, head,
                        MultiplyWide{});
}

/// Whether each of four bytes is at most that of `limits`, in the highest bit of the byte.
REGARD_DEVICE u32 at_most(u32 bytes, u32 limits) {
  const u32 by_lower_bits = (limits | 0x80808080u) - (bytes & 0x7f7f7f7fu);
  return (limits & ~bytes) | ((limits | ~bytes) & by_lower_bits);
}

}  // namespace regard
