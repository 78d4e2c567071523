#include "arrays/element.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>

namespace regard {
namespace {

constexpr ElementInfo table[] = {
#define REGARD_ROW(name, bytes, npy, safetensors, doc) {Element::name, bytes, npy, safetensors, doc},
    REGARD_ELEMENTS(REGARD_ROW)
#undef REGARD_ROW
};

/// What a format has besides finite numbers: infinity and NaN; only NaN, as the largest code; or (fnuz) only
/// NaN, as the code of -0, and then its exponent's bias is one more.
enum class Specials : std::uint8_t { infinity, largest_is_nan, minus_zero_is_nan };

/// A binary float format narrower than fp32.
struct Format {
  int exponent_bits, mantissa_bits;
  Specials specials;

  bool fnuz() const { return specials == Specials::minus_zero_is_nan; }
  int bias() const { return (1 << (exponent_bits - 1)) - (fnuz() ? 0 : 1); }
  std::uint32_t sign() const { return 1u << (exponent_bits + mantissa_bits); }
  std::uint32_t infinity_code() const { return ((1u << exponent_bits) - 1) << mantissa_bits; }
  std::uint32_t nan_code() const {
    if (specials == Specials::infinity) return infinity_code() | 1u << (mantissa_bits - 1);
    return fnuz() ? sign() : sign() - 1;
  }
  /// The first code that is not finite.
  std::uint32_t first_special() const {
    return specials == Specials::infinity ? infinity_code() : nan_code();
  }
};

std::optional<Format> format_of(Element element) {
  switch (element) {
    case Element::bf16:
      return Format{8, 7, Specials::infinity};
    case Element::f16:
      return Format{5, 10, Specials::infinity};
    case Element::f8_e4m3:
      return Format{4, 3, Specials::largest_is_nan};
    case Element::f8_e5m2:
      return Format{5, 2, Specials::infinity};
    case Element::f8_e4m3fnuz:
      return Format{4, 3, Specials::minus_zero_is_nan};
    case Element::f8_e5m2fnuz:
      return Format{5, 2, Specials::minus_zero_is_nan};
    default:
      return std::nullopt;
  }
}

std::uint64_t shift_to_nearest_even(std::uint64_t value, int shift) {
  if (shift == 0) return value;
  if (shift > 40) return 0;
  const std::uint64_t half = std::uint64_t{1} << (shift - 1);
  const std::uint64_t odd = (value >> shift) & 1;
  return (value + half - 1 + odd) >> shift;
}

template <class T>
T load(std::span<const std::byte> bytes, std::size_t index) {
  T value;
  std::memcpy(&value, bytes.data() + index * sizeof(T), sizeof(T));
  return value;
}

template <class T>
void store(std::span<std::byte> bytes, std::size_t index, T value) {
  std::memcpy(bytes.data() + index * sizeof(T), &value, sizeof(T));
}

/// double -> fp32 with the inexact bit kept in the last place ("round to odd"), so that rounding again to a
/// narrower type gives the same result as rounding once.
float to_odd(double value) {
  float nearest = static_cast<float>(value);
  if (static_cast<double>(nearest) == value || std::isnan(value) || std::isinf(value)) return nearest;
  if (std::abs(static_cast<double>(nearest)) > std::abs(value)) nearest = std::nextafter(nearest, 0.0f);
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(nearest) | 1u);
}

double load_float(Element element, std::span<const std::byte> bytes, std::size_t index) {
  switch (info(element).bytes) {
    case 8:
      return load<double>(bytes, index);
    case 4:
      return load<float>(bytes, index);
    case 2:
      return widen(element, load<std::uint16_t>(bytes, index));
    default:
      return widen(element, load<std::uint8_t>(bytes, index));
  }
}

void store_float(Element element, std::span<std::byte> bytes, std::size_t index, double value) {
  switch (info(element).bytes) {
    case 8:
      return store(bytes, index, value);
    case 4:
      return store(bytes, index, static_cast<float>(value));
    case 2:
      return store(bytes, index, static_cast<std::uint16_t>(narrow(element, to_odd(value))));
    default:
      return store(bytes, index, static_cast<std::uint8_t>(narrow(element, to_odd(value))));
  }
}

template <class To, class From>
bool convert_integers(std::span<const std::byte> from, std::span<std::byte> to) {
  for (std::size_t i = 0; i < from.size() / sizeof(From); ++i) {
    const From value = load<From>(from, i);
    if (!std::in_range<To>(value)) return false;
    store(to, i, static_cast<To>(value));
  }
  return true;
}

template <class From>
std::optional<bool> convert_integers_to(Element to, std::span<const std::byte> from,
                                        std::span<std::byte> bytes) {
  switch (to) {
    case Element::i64:
      return convert_integers<std::int64_t, From>(from, bytes);
    case Element::i32:
      return convert_integers<std::int32_t, From>(from, bytes);
    case Element::i8:
      return convert_integers<std::int8_t, From>(from, bytes);
    case Element::u64:
      return convert_integers<std::uint64_t, From>(from, bytes);
    case Element::u32:
      return convert_integers<std::uint32_t, From>(from, bytes);
    case Element::u16:
      return convert_integers<std::uint16_t, From>(from, bytes);
    case Element::u8:
      return convert_integers<std::uint8_t, From>(from, bytes);
    default:
      return std::nullopt;
  }
}

/// Whether every value fits; nothing where one of the two is not an integer type.
std::optional<bool> convert_integers_from(Element from, Element to, std::span<const std::byte> from_bytes,
                                          std::span<std::byte> to_bytes) {
  switch (from) {
    case Element::i64:
      return convert_integers_to<std::int64_t>(to, from_bytes, to_bytes);
    case Element::i32:
      return convert_integers_to<std::int32_t>(to, from_bytes, to_bytes);
    case Element::i8:
      return convert_integers_to<std::int8_t>(to, from_bytes, to_bytes);
    case Element::u64:
      return convert_integers_to<std::uint64_t>(to, from_bytes, to_bytes);
    case Element::u32:
      return convert_integers_to<std::uint32_t>(to, from_bytes, to_bytes);
    case Element::u16:
      return convert_integers_to<std::uint16_t>(to, from_bytes, to_bytes);
    case Element::u8:
      return convert_integers_to<std::uint8_t>(to, from_bytes, to_bytes);
    default:
      return std::nullopt;
  }
}

}  // namespace

std::span<const ElementInfo> element_table() {
  return table;
}

const ElementInfo& info(Element element) {
  return table[static_cast<std::size_t>(element)];
}

Element element_of(regard_dtype dtype) {
  switch (dtype) {
    case REGARD_FP32:
      return Element::f32;
    case REGARD_BF16:
      return Element::bf16;
    case REGARD_FP16:
      return Element::f16;
    case REGARD_FP8:
      return Element::f8_e4m3;
    case REGARD_FP8_E5M2:
      return Element::f8_e5m2;
    case REGARD_FP8_FNUZ:
      return Element::f8_e4m3fnuz;
    case REGARD_FP8_E5M2_FNUZ:
      return Element::f8_e5m2fnuz;
    case REGARD_INT32:
      return Element::i32;
    case REGARD_UINT32:
      return Element::u32;
    case REGARD_UINT8:
      return Element::u8;
    case REGARD_UINT64:
      return Element::u64;
    case REGARD_INT8:
      return Element::i8;
    case REGARD_INT64:
      return Element::i64;
  }
  return Element::raw8;
}

std::optional<std::int64_t> bytes_of(Element element, std::span<const std::int64_t> shape) {
  std::int64_t total = info(element).bytes;
  for (const std::int64_t size : shape) {
    if (size < 0 || __builtin_mul_overflow(total, size, &total)) return std::nullopt;
  }
  return total;
}

bool same_bits(Element from, Element to) {
  if (from == to) return true;
  if (to == Element::bf16) return from == Element::u16 || from == Element::raw16;
  if (is_eight_bit_float(to)) return from == Element::u8 || from == Element::raw8;
  return false;
}

bool is_eight_bit_float(Element element) {
  return info(element).bytes == 1 && format_of(element).has_value();
}

bool is_float(Element element) {
  return element == Element::f64 || element == Element::f32 || format_of(element).has_value();
}

std::uint32_t narrow(Element element, float value) {
  const Format format = *format_of(element);
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 31) != 0 ? format.sign() : 0;
  const int exponent = static_cast<int>((bits >> 23) & 255);
  const std::uint32_t mantissa = bits & 0x7fffff;
  if (exponent == 255) return sign | (mantissa != 0 ? format.nan_code() : format.first_special());

  // As an integer, a finite float is (exponent << 23) + mantissa, and a carry out of the mantissa increments
  // the exponent. Below the narrow type's smallest exponent the implicit bit moves into the mantissa.
  const std::uint64_t significand = mantissa | (exponent == 0 ? 0u : 0x800000u);
  const int rebased = std::max(exponent, 1) - 127 + format.bias();
  const int shift = 23 - format.mantissa_bits;
  const std::uint64_t code =
      rebased >= 1
          ? shift_to_nearest_even((static_cast<std::uint64_t>(rebased - 1) << 23) + significand, shift)
          : shift_to_nearest_even(significand, shift + 1 - rebased);
  if (format.fnuz() && code == 0) return 0;  // there is no -0
  return sign | static_cast<std::uint32_t>(std::min<std::uint64_t>(code, format.first_special()));
}

float widen(Element element, std::uint32_t bits) {
  const Format format = *format_of(element);
  const float sign = (bits & format.sign()) != 0 ? -1.0f : 1.0f;
  const std::uint32_t code = bits & (format.sign() - 1);
  if (format.specials == Specials::infinity && code == format.infinity_code())
    return sign * std::numeric_limits<float>::infinity();
  if (code >= format.first_special() || (format.fnuz() && bits == format.nan_code()))
    return std::copysign(std::numeric_limits<float>::quiet_NaN(), sign);
  const int exponent = static_cast<int>(code >> format.mantissa_bits);
  const std::uint32_t mantissa = code & ((1u << format.mantissa_bits) - 1);
  const std::uint32_t significand = mantissa | (exponent == 0 ? 0u : 1u << format.mantissa_bits);
  return sign * std::ldexp(static_cast<float>(significand),
                           std::max(exponent, 1) - format.bias() - format.mantissa_bits);
}

Status convert(Element from, std::span<const std::byte> from_bytes, Element to,
               std::span<std::byte> to_bytes) {
  if (same_bits(from, to)) {
    if (!from_bytes.empty()) std::memcpy(to_bytes.data(), from_bytes.data(), from_bytes.size());
    return {};
  }
  const std::string pair = std::string(info(from).name) + " to " + std::string(info(to).name);
  if (is_float(from) && is_float(to)) {
    const std::size_t count = from_bytes.size() / static_cast<std::size_t>(info(from).bytes);
    for (std::size_t i = 0; i < count; ++i) store_float(to, to_bytes, i, load_float(from, from_bytes, i));
    return {};
  }
  const std::optional<bool> fitted = convert_integers_from(from, to, from_bytes, to_bytes);
  if (!fitted) return invalid("there is no conversion from " + pair);
  if (!*fitted) return invalid("a value does not fit when converting " + pair);
  return {};
}

std::string shape_text(std::span<const std::int64_t> shape) {
  std::string text = "[";
  for (const std::int64_t size : shape) {
    if (text.size() > 1) text += ',';
    text += std::to_string(size);
  }
  return text + "]";
}

}  // namespace regard
