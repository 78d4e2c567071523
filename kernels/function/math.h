// Elementary functions of fp32 numbers for interpreted functions. They are computed in fp64 with + - * /
// only, so that all targets give the same result, except for fused multiply-adds.
#pragma once

#include "kernels/numbers.h"

namespace regard::function {

constexpr double not_a_number = __builtin_bit_cast(double, 0x7ff8000000000000ull);
constexpr double infinite = __builtin_bit_cast(double, 0x7ff0000000000000ull);
constexpr double ln2 = 0.69314718055994530942;

REGARD_INLINE double magnitude(double x) {
  return __builtin_bit_cast(double, __builtin_bit_cast(u64, x) & 0x7fffffffffffffffull);
}

/// 2^x; a result outside fp32's range becomes 0 or infinity when it is rounded to fp32.
REGARD_INLINE double exp2_of(double x) {
  if (x != x) return x;
  constexpr double most = 300;
  const double bounded = x < -most ? -most : x > most ? most : x;
  const i32 whole = static_cast<i32>(bounded + (bounded < 0 ? -0.5 : 0.5));
  const double y = (bounded - whole) * ln2;  // |y| < 0.35
  double power = 1.0 / 39916800;
  power = power * y + 1.0 / 3628800;
  power = power * y + 1.0 / 362880;
  power = power * y + 1.0 / 40320;
  power = power * y + 1.0 / 5040;
  power = power * y + 1.0 / 720;
  power = power * y + 1.0 / 120;
  power = power * y + 1.0 / 24;
  power = power * y + 1.0 / 6;
  power = power * y + 1.0 / 2;
  power = power * y + 1;
  power = power * y + 1;
  return power * __builtin_bit_cast(double, static_cast<u64>(1023 + whole) << 52);
}

/// The binary logarithm.
REGARD_INLINE double log2_of(double x) {
  if (x != x || x < 0) return not_a_number;
  if (x == 0) return -infinite;
  if (x == infinite) return x;
  // x = m * 2^e with m in [sqrt(1/2), sqrt(2)); log m = 2 artanh((m - 1) / (m + 1)).
  const u64 bits = __builtin_bit_cast(u64, x) - 0x3fe6a09e667f3bcdull;
  const double exponent = static_cast<double>(static_cast<i64>(bits) >> 52);
  const double m = __builtin_bit_cast(double, (bits & 0xfffffffffffffull) + 0x3fe6a09e667f3bcdull);
  const double t = (m - 1) / (m + 1), square = t * t;
  double series = 1.0 / 17;
  for (int i = 15; i > 0; i -= 2) series = series * square + 1.0 / i;
  return exponent + 2 * t * series / ln2;
}

REGARD_INLINE double exp_of(double x) {
  return exp2_of(x / ln2);
}

REGARD_INLINE double tanh_of(double x) {
  const double size = magnitude(x);
  if (size < 1e-3) return x - x * x * x / 3;
  const double e = exp_of(-2 * size), far = (1 - e) / (1 + e);
  return x < 0 ? -far : far;
}

/// The sine of x + quarters * pi / 2, accurate to fp32 for |x| up to 1e8.
REGARD_INLINE double sin_of(double x, i64 quarters) {
  constexpr double most = 1e15;
  if (!(magnitude(x) < most)) return not_a_number;
  constexpr double pi_half_high = 1.57079632673412561417, pi_half_low = 6.07710050650619224932e-11;
  const i64 count = static_cast<i64>(x / 1.57079632679489661923 + (x < 0 ? -0.5 : 0.5));
  const double r = (x - static_cast<double>(count) * pi_half_high) - static_cast<double>(count) * pi_half_low;
  const double square = r * r;
  const u64 quarter = static_cast<u64>(count + quarters) & 3;
  double value;
  if (quarter % 2 == 0) {
    value = 1.0 / 6227020800;
    value = value * square - 1.0 / 39916800;
    value = value * square + 1.0 / 362880;
    value = value * square - 1.0 / 5040;
    value = value * square + 1.0 / 120;
    value = value * square - 1.0 / 6;
    value = (value * square + 1) * r;
  } else {
    value = 1.0 / 479001600;
    value = value * square - 1.0 / 3628800;
    value = value * square + 1.0 / 40320;
    value = value * square - 1.0 / 720;
    value = value * square + 1.0 / 24;
    value = value * square - 1.0 / 2;
    value = value * square + 1;
  }
  return quarter >= 2 ? -value : value;
}

REGARD_INLINE float floor_of(float x) {
  if (!(magnitude(x) < 8388608)) return x;  // whole, infinite or NaN
  const float whole = static_cast<float>(static_cast<i32>(x));
  return whole > x ? whole - 1 : whole;
}
/// Rounds to the nearest whole number, halves to even.
REGARD_INLINE float round_of(float x) {
  if (!(magnitude(x) < 8388608)) return x;
  const float below = floor_of(x), rest = x - below;
  const bool odd = (static_cast<i32>(below) & 1) != 0;
  return rest > 0.5f || (rest == 0.5f && odd) ? below + 1 : below;
}

REGARD_INLINE double root_of(double x) {
#ifdef __CUDACC__
  return sqrt(x);
#else
  return __builtin_sqrt(x);
#endif
}

REGARD_INLINE double pow_of(double x, double y) {
  if (y == 0 || x == 1) return 1;
  if (x != x || y != y) return not_a_number;
  if (x >= 0) return exp2_of(y * log2_of(x));
  const bool whole = magnitude(y) >= 8388608 || floor_of(static_cast<float>(y)) == static_cast<float>(y);
  if (!whole) return x == -infinite ? (y > 0 ? infinite : 0) : not_a_number;
  const double power = x == -1 ? 1 : exp2_of(y * log2_of(-x));
  const bool odd = magnitude(y) < 16777216 && (static_cast<i32>(y) & 1) != 0;
  return odd ? -power : power;
}

/// Truncates toward 0 and clamps to int32; 0 for NaN.
REGARD_INLINE i32 integer_of(float x) {
  if (x != x) return 0;
  if (x >= 2147483648.0f) return 0x7fffffff;
  if (x <= -2147483648.0f) return -0x7fffffff - 1;
  return static_cast<i32>(x);
}

}  // namespace regard::function
