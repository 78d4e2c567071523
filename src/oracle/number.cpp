#include "oracle/number.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/process_lifetime.h"

namespace regard::oracle {
namespace {

template <class T>
T load(const void* data, std::int64_t index) {
  T value;
  std::memcpy(&value, static_cast<const T*>(data) + index, sizeof value);
  return value;
}

/// Every number of a type of at most 16 bits.
template <regard_dtype dtype>
std::vector<double> table() {
  const Format format = oracle::format(dtype);
  std::vector<double> values(std::size_t{1} << (1 + format.exponent_bits + format.mantissa_bits));
  for (std::uint32_t bits = 0; bits < values.size(); ++bits) values[bits] = decode_bits(format, bits);
  return values;
}

template <class T>
void store(void* data, std::int64_t index, T value) {
  std::memcpy(static_cast<T*>(data) + index, &value, sizeof value);
}

}  // namespace

double Format::unit() const {
  return std::ldexp(1.0, -mantissa_bits - 1);
}
double Format::floor() const {
  return std::ldexp(1.0, smallest_exponent() - mantissa_bits - 1);
}
double Format::largest() const {
  return decode_bits(*this, largest_bits());
}

Format format(regard_dtype dtype) {
  switch (dtype) {
    case REGARD_BF16:
      return {8, 7, Specials::ieee};
    case REGARD_FP16:
      return {5, 10, Specials::ieee};
    case REGARD_FP8:
      return {4, 3, Specials::ones};
    case REGARD_FP8_E5M2:
      return {5, 2, Specials::ieee};
    case REGARD_FP8_FNUZ:
      return {4, 3, Specials::minus_zero};
    case REGARD_FP8_E5M2_FNUZ:
      return {5, 2, Specials::minus_zero};
    default:
      return {8, 23, Specials::ieee};
  }
}

double decode_bits(const Format& format, std::uint32_t bits) {
  const std::uint32_t mantissa = bits & ((1u << format.mantissa_bits) - 1);
  const std::uint32_t exponent = (bits >> format.mantissa_bits) & ((1u << format.exponent_bits) - 1);
  const std::uint32_t minus_zero = 1u << (format.exponent_bits + format.mantissa_bits);
  const double sign = (bits & minus_zero) != 0 ? -1 : 1;
  if (format.specials == Specials::minus_zero && bits == minus_zero) return nan;
  if ((bits & ~minus_zero) > format.largest_bits())
    return format.specials == Specials::ieee && mantissa == 0 ? sign * infinity : nan;
  const double fraction = std::ldexp(mantissa, -format.mantissa_bits);
  if (exponent == 0) return sign * std::ldexp(fraction, format.smallest_exponent());
  return sign * std::ldexp(1 + fraction, static_cast<int>(exponent) - format.bias());
}

std::uint32_t encode_bits(const Format& format, double value) {
  constexpr int m_of_double = 52, bias_of_double = 1023;
  const int m = format.mantissa_bits, smallest = format.smallest_exponent();
  const bool fnuz = format.specials == Specials::minus_zero;
  const std::uint32_t minus_zero = 1u << (format.exponent_bits + m);
  const std::uint32_t sign = std::signbit(value) ? minus_zero : 0;
  if (std::isnan(value)) return fnuz ? minus_zero : sign | (minus_zero - 1);
  const auto bits = std::bit_cast<std::uint64_t>(std::fabs(value));
  const int exponent = static_cast<int>(bits >> m_of_double) - bias_of_double;
  constexpr std::uint64_t implied = std::uint64_t{1} << m_of_double;
  // A double without the implied bit is far too small for these formats.
  const std::uint64_t significand = (bits & (implied - 1)) | implied;
  const int lost = std::min(m_of_double - m + std::max(smallest - exponent, 0), 63);
  const std::uint64_t half = std::uint64_t{1} << (lost - 1), rest = significand & (2 * half - 1);
  std::uint64_t kept = significand >> lost;
  if (rest > half || (rest == half && kept % 2 == 1)) ++kept;
  // The implied bit counts as one in the exponent, and a carry as one more.
  if (exponent >= smallest) kept += static_cast<std::uint64_t>(exponent - smallest) << m;
  const std::uint32_t most = format.largest_bits() + (format.specials == Specials::ieee ? 1 : 0);
  if (fnuz && kept == 0) return 0;
  return sign | static_cast<std::uint32_t>(std::min<std::uint64_t>(kept, most));
}

double decode(regard_dtype dtype, const void* data, std::int64_t index) {
  switch (dtype) {
    case REGARD_FP32:
      return load<float>(data, index);
    case REGARD_BF16:
      return process_lifetime<table<REGARD_BF16>>()[load<std::uint16_t>(data, index)];
    case REGARD_FP16:
      return process_lifetime<table<REGARD_FP16>>()[load<std::uint16_t>(data, index)];
    case REGARD_FP8:
      return process_lifetime<table<REGARD_FP8>>()[load<std::uint8_t>(data, index)];
    case REGARD_FP8_E5M2:
      return process_lifetime<table<REGARD_FP8_E5M2>>()[load<std::uint8_t>(data, index)];
    case REGARD_FP8_FNUZ:
      return process_lifetime<table<REGARD_FP8_FNUZ>>()[load<std::uint8_t>(data, index)];
    case REGARD_FP8_E5M2_FNUZ:
      return process_lifetime<table<REGARD_FP8_E5M2_FNUZ>>()[load<std::uint8_t>(data, index)];
    case REGARD_INT8:
      return load<std::int8_t>(data, index);
    case REGARD_INT64:
      return static_cast<double>(load<std::int64_t>(data, index));
    case REGARD_INT32:
      return load<std::int32_t>(data, index);
    case REGARD_UINT32:
      return load<std::uint32_t>(data, index);
    case REGARD_UINT8:
      return load<std::uint8_t>(data, index);
    case REGARD_UINT64:
      return static_cast<double>(load<std::uint64_t>(data, index));
  }
  return nan;
}

void encode(regard_dtype dtype, void* data, std::int64_t index, double value) {
  switch (dtype) {
    case REGARD_FP32:
      return store(data, index, static_cast<float>(value));
    case REGARD_BF16:
    case REGARD_FP16:
      return store(data, index, static_cast<std::uint16_t>(encode_bits(format(dtype), value)));
    case REGARD_FP8:
    case REGARD_FP8_E5M2:
    case REGARD_FP8_FNUZ:
    case REGARD_FP8_E5M2_FNUZ:
      return store(data, index, static_cast<std::uint8_t>(encode_bits(format(dtype), value)));
    case REGARD_INT8:  // to the nearest, ties to even; what is larger saturates
      if (std::isnan(value)) value = 0;
      return store(data, index, static_cast<std::int8_t>(std::clamp(std::nearbyint(value), -128.0, 127.0)));
    case REGARD_INT64:
      return store(data, index, static_cast<std::int64_t>(value));
    case REGARD_INT32:
      return store(data, index, static_cast<std::int32_t>(value));
    case REGARD_UINT32:
      return store(data, index, static_cast<std::uint32_t>(value));
    case REGARD_UINT8:
      return store(data, index, static_cast<std::uint8_t>(value));
    case REGARD_UINT64:
      return store(data, index, static_cast<std::uint64_t>(value));
  }
}

double rounded(regard_dtype dtype, double value) {
  double memory = 0;  // of at least the size of every type
  encode(dtype, &memory, 0, value);
  return decode(dtype, &memory, 0);
}

}  // namespace regard::oracle
