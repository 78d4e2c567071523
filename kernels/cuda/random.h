// Random numbers and bit operations for dropout.
#pragma once

#include "kernels/cuda/warp.h"
#include "kernels/philox.h"

namespace regard {

/// In plain C++ the compiler would continue in 64 bits, with products that take several instructions.
struct MultiplyWide {
  REGARD_DEVICE philox::HighLow operator()(u32 x, u32 y) const {
    philox::HighLow product;
    asm("{\n .reg .b64 both;\n mul.wide.u32 both, %2, %3;\n mov.b64 {%0, %1}, both;\n}"
        : "=r"(product.low), "=r"(product.high)
        : "r"(x), "r"(y));
    return product;
  }
};

/// All ones in the low half if byte `first` of `x` has its highest bit set, and in the high half if the next
/// byte has.
REGARD_DEVICE u32 spread_highest_bits(u32 x, i32 first) {
  u32 halves;
  asm("prmt.b32 %0, %1, 0, %2;" : "=r"(halves) : "r"(x), "r"(0x9988 + 0x1111 * first));
  return halves;
}

}  // namespace regard
