// Operations on int32, computed with unsigned words so that overflow wraps.
#pragma once

#include "kernels/arguments.h"

namespace regard::function {

REGARD_INLINE i32 signed_of(u32 x) {
  return __builtin_bit_cast(i32, x);
}

/// The quotient rounded down, as in Python; 0 if b is 0.
REGARD_INLINE u32 floor_quotient(u32 a, u32 b) {
  const i32 x = signed_of(a), y = signed_of(b);
  if (y == 0) return 0;
  if (y == -1) return 0u - a;  // the smallest number wraps to itself
  const i32 quotient = x / y;
  return static_cast<u32>(x % y != 0 && (x < 0) != (y < 0) ? quotient - 1 : quotient);
}

/// The remainder with the sign of b, as in Python; 0 if b is 0.
REGARD_INLINE u32 floor_remainder(u32 a, u32 b) {
  const i32 x = signed_of(a), y = signed_of(b);
  if (y == 0 || y == -1) return 0;
  const i32 remainder = x % y;
  return static_cast<u32>(remainder != 0 && (remainder < 0) != (y < 0) ? remainder + y : remainder);
}

}  // namespace regard::function
