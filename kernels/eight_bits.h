// The 8-bit types, for machines that do not convert them by one instruction.
#pragma once

#include "kernels/numbers.h"

namespace regard {

/// fnuz types have no infinity and no -0, whose bits are NaN; their exponent's bias is one more.
template <DType dtype>
struct EightBits {
  static constexpr bool e4m3 = dtype == DType::fp8 || dtype == DType::fp8_fnuz;
  static constexpr bool fnuz = dtype == DType::fp8_fnuz || dtype == DType::fp8_e5m2_fnuz;
  static constexpr i32 mantissa = e4m3 ? 3 : 2, bias = (e4m3 ? 7 : 15) + (fnuz ? 1 : 0);
  /// The bits of the largest number, and those of NaN apart from its sign.
  static constexpr u32 largest = fnuz ? 0x7f : e4m3 ? 0x7e : 0x7b, not_a_number = fnuz ? 0x80 : 0x7f;
};

}  // namespace regard
