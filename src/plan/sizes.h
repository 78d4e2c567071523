// Element and byte counts in 64 bits that refuse to wrap.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <limits>

namespace regard {

/// What these functions return when the result does not fit, or an operand did not fit before.
constexpr std::int64_t too_large = std::numeric_limits<std::int64_t>::max();

/// The product, or the largest int64 when it does not fit (WorkspaceLayout::lay_out then refuses).
constexpr std::int64_t product(std::initializer_list<std::int64_t> factors) {
  std::int64_t result = 1;
  for (std::int64_t factor : factors) {
    if (__builtin_mul_overflow(result, factor, &result)) return too_large;
  }
  return result;
}

constexpr std::int64_t ceil_divide(std::int64_t a, std::int64_t b) {
  return a == too_large ? a : a / b + (a % b != 0 ? 1 : 0);
}
constexpr std::int64_t round_up(std::int64_t a, std::int64_t b) {
  return product({ceil_divide(a, b), b});
}

constexpr std::int64_t sum(std::initializer_list<std::int64_t> terms) {
  std::int64_t result = 0;
  for (std::int64_t term : terms) {
    if (__builtin_add_overflow(result, term, &result)) return too_large;
  }
  return result;
}

constexpr const char* too_many_blocks =
    "the grid of this problem would not fit in 64-bit sizes; use a smaller batch or shorter sequences";

}  // namespace regard
