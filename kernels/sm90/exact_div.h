// A quotient without a 64-bit division.
#pragma once

#include "kernels/cuda/warp.h"

namespace regard {

/// The quotient of a number that `divisor` divides evenly, if it has 32 bits: uses the odd part's inverse
/// modulo 2^32; each step doubles its correct bits. A 64-bit division is a function call and expensive to
/// compile.
REGARD_DEVICE u32 exact_div(u64 number, u64 divisor) {
  const i32 twos = __ffsll(static_cast<i64>(divisor)) - 1;
  const u32 odd = static_cast<u32>(divisor >> twos);
  u32 inverse = odd;
#pragma unroll
  for (i32 right = 3; right < 32; right *= 2) inverse *= 2 - odd * inverse;
  return static_cast<u32>(number >> twos) * inverse;
}

}  // namespace regard
