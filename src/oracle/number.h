// The number formats: converts one element of memory to a double and back, rounded to nearest even.
#pragma once

#include <cstdint>
#include <limits>

#include "regard/regard.h"

namespace regard::oracle {

/// The bit patterns that are not finite numbers. In a format without infinity, overflow saturates.
enum class Specials : std::uint8_t {
  ieee,       ///< the highest exponent: infinity and NaN
  ones,       ///< all ones: NaN (e4m3)
  minus_zero  ///< that of -0: NaN (fnuz types, whose bias is one more)
};

/// A binary floating-point format, by what distinguishes it.
struct Format {
  int exponent_bits, mantissa_bits;
  Specials specials;

  constexpr int bias() const {
    return (1 << (exponent_bits - 1)) - (specials == Specials::minus_zero ? 0 : 1);
  }
  constexpr std::uint32_t largest_bits() const {
    const std::uint32_t ones = (1u << (exponent_bits + mantissa_bits)) - 1;
    if (specials == Specials::ieee) return ones - (1u << mantissa_bits);
    return specials == Specials::ones ? ones - 1 : ones;
  }
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
/// The number that is stored in place of `value`.
double rounded(regard_dtype, double value);

/// The bits of a finite format's number, and back.
double decode_bits(const Format&, std::uint32_t bits);
std::uint32_t encode_bits(const Format&, double value);

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr double infinity = std::numeric_limits<double>::infinity();

}  // namespace regard::oracle
