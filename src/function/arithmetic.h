// What the operations on whole numbers and conditions mean, for whoever evaluates a function on the host.
// Nothing here is undefined: all arithmetic is that of unsigned words.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace regard::function {

inline std::int32_t wrapped(std::uint32_t x) {
  return std::bit_cast<std::int32_t>(x);
}
inline std::uint32_t bits(std::int32_t x) {
  return std::bit_cast<std::uint32_t>(x);
}

inline std::int32_t negative(std::int32_t x) {
  return wrapped(0u - bits(x));
}

/// Rounded down, as in Python; 0 where y is 0.
inline std::int32_t floor_quotient(std::int32_t x, std::int32_t y) {
  if (y == 0) return 0;
  if (y == -1) return negative(x);  // the smallest number stays as it is
  const std::int32_t quotient = x / y;
  return x % y != 0 && (x < 0) != (y < 0) ? quotient - 1 : quotient;
}

/// x - y * floor_quotient(x, y), with the sign of y; 0 where y is 0.
inline std::int32_t floor_remainder(std::int32_t x, std::int32_t y) {
  if (y == 0 || y == -1) return 0;
  const std::int32_t remainder = x % y;
  return remainder != 0 && (remainder < 0) != (y < 0) ? remainder + y : remainder;
}

/// Shifts by the count modulo 32.
inline std::int32_t shifted_left(std::int32_t x, std::int32_t count) {
  return wrapped(bits(x) << (bits(count) & 31u));
}
/// The same, filled with copies of the sign.
inline std::int32_t shifted_right(std::int32_t x, std::int32_t count) {
  return x >> (bits(count) & 31u);
}

/// Truncates toward 0 and clamps to int32; 0 for NaN.
inline std::int32_t integer_of(double x) {
  if (std::isnan(x)) return 0;
  if (x >= 2147483647.0) return INT32_MAX;
  if (x <= -2147483648.0) return INT32_MIN;
  return static_cast<std::int32_t>(x);
}

}  // namespace regard::function
