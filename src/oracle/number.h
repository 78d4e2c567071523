// The number formats: converts one element of memory to a double and back, rounded to nearest even.
#pragma once

#include <cstdint>
#include <limits>

#include "regard/regard.h"

namespace regard::oracle {

/// A binary floating-point format, by what distinguishes it.
struct Format {
  int exponent_bits, mantissa_bits;
  bool infinity;  ///< false for e4m3: no infinity, the all-ones pattern is NaN, overflow saturates

  constexpr int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  constexpr int smallest_exponent() const { return 1 - bias(); }
  /// Half a unit in the last place relative to the value: the largest relative rounding error.
  double unit() const;
  /// Half the smallest subnormal: the largest rounding error of a value near zero.
  double floor() const;
  double largest() const;
};

/// Only for the floating-point dtypes.
Format format(regard_dtype);

double decode(regard_dtype, const void* data, std::int64_t index);
void encode(regard_dtype, void* data, std::int64_t index, double value);

/// The bits of a finite format's number, and back.
double decode_bits(const Format&, std::uint32_t bits);
std::uint32_t encode_bits(const Format&, double value);

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr double infinity = std::numeric_limits<double>::infinity();

}  // namespace regard::oracle
