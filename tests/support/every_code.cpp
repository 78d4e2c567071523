#include "support/every_code.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace regard::test {
namespace {

constexpr int heads = 2, rows = 128, columns = 128, d = 16;  // heads * rows = heads * columns = 256

/// By the definitions of the types, without the oracle. OCP's infinity is NaN here.
double number_of(DType dtype, int code) {
  const bool e4m3 = dtype == DType::fp8 || dtype == DType::fp8_fnuz;
  const bool fnuz = dtype == DType::fp8_fnuz || dtype == DType::fp8_e5m2_fnuz;
  const int steps = e4m3 ? 8 : 4, bias = (e4m3 ? 7 : 15) + (fnuz ? 1 : 0);
  const int size = code % 128, exponent = size / steps, step = size % steps;
  const bool special = fnuz ? code == 128 : size >= (e4m3 ? 127 : 124);
  if (special) return NAN;
  const double significand = (exponent == 0 ? 0.0 : 1.0) + static_cast<double>(step) / steps;
  return std::ldexp(code < 128 ? significand : -significand, std::max(exponent, 1) - bias);
}

}  // namespace

Case every_code(const std::string& dtype) {
  Case c(
      fmt::format("fwd {} out=fp32 lse h={} sq={} sk=1 d={} dv={} scale=1", dtype, heads, rows, d, columns));
  auto* const q = static_cast<std::uint8_t*>(c.arguments().tensor[REGARD_Q].data);
  auto* const v = static_cast<std::uint8_t*>(c.arguments().tensor[REGARD_V].data);
  for (std::int64_t i = 0; i < c.count(REGARD_Q); ++i) q[i] = 0;
  for (std::int64_t i = 0; i < c.count(REGARD_K); ++i) c.set(REGARD_K, i, i % d == 0 ? 1 : 0);
  for (int code = 0; code < heads * rows; ++code) {
    q[(code % rows * heads + code / rows) * d] = static_cast<std::uint8_t>(code);
    v[code] = static_cast<std::uint8_t>(code);
  }
  return c;
}

std::string wrong_codes(const Case& c, bool scaled) {
  // Far less than the distance of two numbers, and no less than the rounding errors of LSE and of a weight of
  // 1: where weights are scaled by 2^8, LSE has that logarithm's error.
  constexpr double relative = 1e-5;
  const double absolute = scaled ? 1e-6 : 1e-7;
  std::string wrong;
  const auto expect = [&](const char* what, int code, double actual) {
    const double exact = number_of(c.problem().dtype, code);
    const bool right = std::isnan(exact)
                           ? !std::isfinite(actual)
                           : std::fabs(actual - exact) <= absolute + relative * std::fabs(exact);
    if (!right) wrong += fmt::format("{} 0x{:02x} is {}, not {}; ", what, code, actual, exact);
  };
  for (int code = 0; code < heads * rows; ++code) {
    const int head = code / rows, column = code % rows;
    expect("Q's", code, c.get(REGARD_LSE, code));
    // The second row of O: Q's first one is NaN in one of the heads, if the type is fnuz.
    expect("V's", code, c.get(REGARD_O, (heads + head) * columns + column));
  }
  return wrong;
}

}  // namespace regard::test
