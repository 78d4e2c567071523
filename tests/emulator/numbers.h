// 8-bit and 16-bit numbers, as the oracle defines them.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "oracle/number.h"

namespace emulator {

/// The value of `bits`.
inline float decoded(regard_dtype dtype, std::uint32_t bits) {
  if (dtype == REGARD_BF16) return std::bit_cast<float>(bits << 16);
  return static_cast<float>(regard::oracle::decode(dtype, &bits, 0));
}
/// Rounded to nearest even.
inline std::uint32_t encoded(regard_dtype dtype, float x) {
  std::uint32_t bits = 0;
  regard::oracle::encode(dtype, &bits, 0, static_cast<double>(x));
  return bits;
}
/// The same, but numbers that are too large become the largest one.
inline std::uint32_t encoded_finite(regard_dtype dtype, float x) {
  const auto most = static_cast<float>(regard::oracle::format(dtype).largest());
  return encoded(dtype, std::isnan(x) ? x : std::fmin(std::fmax(x, -most), most));
}
inline float flushed(float x) {
  return std::fabs(x) < 0x1p-126f ? std::copysign(0.0f, x) : x;
}

}  // namespace emulator
