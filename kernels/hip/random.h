// Random numbers and bit operations for dropout.
#pragma once

#include "kernels/hip/wave.h"
#include "kernels/philox.h"

namespace regard {

using MultiplyWide = philox::WideMultiply;

/// All ones in the low half if byte `first` of `x` has its highest bit set, and in the high half if the next
/// byte has.
REGARD_DEVICE u32 spread_highest_bits(u32 x, i32 first) {
  const i32 low = static_cast<i32>(x << (24 - 8 * first)) >> 31,
            high = static_cast<i32>(x << (16 - 8 * first)) >> 31;
  return (static_cast<u32>(low) & 0xffffu) | (static_cast<u32>(high) & 0xffff0000u);
}

}  // namespace regard
