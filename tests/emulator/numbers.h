// Numbers of 8 and 16 bits, as the oracle knows them.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "oracle/number.h"

namespace emulator {

/// Of up to eight bytes; the usual four without a call.
inline std::uint64_t bits_at(const void* place, std::size_t bytes) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, place, bytes == 4 ? 4 : bytes);
  return bits;
}
inline void set_bits(void* place, std::size_t bytes, std::uint64_t bits) {
  std::memcpy(place, &bits, bytes == 4 ? 4 : bytes);
}

/// All numbers of a type, by their bits.
const std::vector<float>& numbers_of(regard_dtype);

/// The value of `bits`.
inline float decoded(regard_dtype dtype, std::uint32_t bits) {
  return numbers_of(dtype)[bits];
}
/// Rounded to nearest even.
inline std::uint32_t encoded(regard_dtype dtype, float x) {
  std::uint32_t bits = 0;
  regard::oracle::encode(dtype, &bits, 0, static_cast<double>(x));
  return bits;
}
/// The same, where what is too large becomes the largest.
inline std::uint32_t encoded_finite(regard_dtype dtype, float x) {
  const auto most = static_cast<float>(regard::oracle::format(dtype).largest());
  return encoded(dtype, std::isnan(x) ? x : std::fmin(std::fmax(x, -most), most));
}
inline float flushed(float x) {
  return std::fabs(x) < 0x1p-126f ? std::copysign(0.0f, x) : x;
}

}  // namespace emulator
