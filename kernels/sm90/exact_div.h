// A quotient without a division of 64 bits.
#pragma once

#include "kernels/cuda/warp.h"

namespace regard {

/// The quotient of a number that `divisor` divides, if it has 32 bits: the odd part's inverse modulo 2^32,
/// each step of which doubles the bits that are right. A division of 64 bits is a call, dear to compile.
REGARD_DEVICE u32 exact_div(u64 number, u64 divisor) {
  const i32 twos = __ffsll(static_cast<i64>(divisor)) - 1;
  const u32 odd = static_cast<u32>(divisor >> twos);
  u32 inverse = odd;
#pragma unroll
  for (i32 right = 3; right < 32; right *= 2) inverse *= 2 - odd * inverse;
  return static_cast<u32>(number >> twos) * inverse;
}

}  // namespace regard
