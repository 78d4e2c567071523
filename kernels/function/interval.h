// The lowest and the highest result that steps of a function can have for several rows and keys together.
#pragma once

#include "kernels/arguments.h"
#include "kernels/function/operations.h"
#include "kernels/inline.h"

namespace regard::function {

/// Of int32 numbers, or of conditions as 0 and 1.
struct Interval {
  i64 low, high;

  constexpr REGARD_INLINE bool single() const { return low == high; }
};

constexpr REGARD_INLINE i64 lower_of(i64 a, i64 b) {
  return a < b ? a : b;
}
constexpr REGARD_INLINE i64 higher_of(i64 a, i64 b) {
  return a < b ? b : a;
}

constexpr i64 lowest = -0x80000000ll, highest = 0x7fffffff;

/// All results of this type; of real numbers nothing is known.
constexpr REGARD_INLINE Interval any_of(Type type) {
  return type == Type::boolean ? Interval{0, 1} : Interval{lowest, highest};
}

/// Sums and products that may leave int32 wrap.
constexpr REGARD_INLINE Interval unless_it_wraps(Interval x) {
  return x.low < lowest || x.high > highest ? Interval{lowest, highest} : x;
}

constexpr REGARD_INLINE Interval condition(bool always, bool never) {
  return {always ? 1 : 0, never ? 0 : 1};
}

/// Of int32 numbers, the second of which is positive.
constexpr REGARD_INLINE i64 quotient_down(i64 a, i64 b) {
  const i32 x = static_cast<i32>(a), y = static_cast<i32>(b);
  return x / y - (x % y < 0 ? 1 : 0);
}

constexpr REGARD_INLINE Interval product_of(Interval x, Interval y) {
  const i64 a = x.low * y.low, b = x.low * y.high, c = x.high * y.low, d = x.high * y.high;
  return unless_it_wraps(
      {lower_of(lower_of(a, b), lower_of(c, d)), higher_of(higher_of(a, b), higher_of(c, d))});
}

constexpr REGARD_INLINE Interval remainder_of(Interval x, i64 divisor) {
  const i64 quotient = quotient_down(x.low, divisor);
  if (quotient != quotient_down(x.high, divisor)) return {0, divisor - 1};
  return {x.low - quotient * divisor, x.high - quotient * divisor};
}

constexpr REGARD_INLINE i64 sign_of(i64 n) {
  return (n > 0) - (n < 0);
}

/// The results, of this type, of an operation whose first operand has type `operand`, with `z` for the third.
constexpr REGARD_INLINE Interval of_operation(Operation operation, Type type, Type operand, Interval x,
                                              Interval y, Interval z) {
  const bool conditions = operand == Type::boolean;
  if (type == Type::real || operand == Type::real) return any_of(type);
  switch (operation) {
    case Operation::logical_or:
      return {x.low | y.low, x.high | y.high};
    case Operation::logical_and:
      return {x.low & y.low, x.high & y.high};
    case Operation::logical_not:
      return {1 - x.high, 1 - x.low};
    case Operation::bit_or:
      return conditions ? Interval{x.low | y.low, x.high | y.high} : any_of(type);
    case Operation::bit_and:
      if (conditions) return {x.low & y.low, x.high & y.high};
      return x.low >= 0 && y.low >= 0 ? Interval{0, lower_of(x.high, y.high)} : any_of(type);
    case Operation::less:
      return condition(x.high < y.low, x.low >= y.high);
    case Operation::less_equal:
      return condition(x.high <= y.low, x.low > y.high);
    case Operation::equal:
      return condition(x.single() && y.single() && x.low == y.low, x.high < y.low || y.high < x.low);
    case Operation::not_equal:
      return condition(x.high < y.low || y.high < x.low, x.single() && y.single() && x.low == y.low);
    case Operation::add:
      return unless_it_wraps({x.low + y.low, x.high + y.high});
    case Operation::subtract:
      return unless_it_wraps({x.low - y.high, x.high - y.low});
    case Operation::multiply:
      return product_of(x, y);
    case Operation::negate:
      return unless_it_wraps({-x.high, -x.low});
    case Operation::abs:
      if (x.low >= 0) return x;
      if (x.high <= 0) return unless_it_wraps({-x.high, -x.low});
      return unless_it_wraps({0, higher_of(-x.low, x.high)});
    case Operation::sign:
      return {sign_of(x.low), sign_of(x.high)};
    case Operation::min:
      return {lower_of(x.low, y.low), lower_of(x.high, y.high)};
    case Operation::max:
      return {higher_of(x.low, y.low), higher_of(x.high, y.high)};
    case Operation::floor_divide:
      if (!y.single() || y.low <= 0) return any_of(type);
      return {quotient_down(x.low, y.low), quotient_down(x.high, y.low)};
    case Operation::modulo:
      return y.single() && y.low > 0 ? remainder_of(x, y.low) : any_of(type);
    case Operation::shift_right:
      return y.single() ? Interval{x.low >> (y.low & 31), x.high >> (y.low & 31)} : any_of(type);
    case Operation::where:
      if (x.single()) return x.low != 0 ? y : z;
      return {lower_of(y.low, z.low), higher_of(y.high, z.high)};
    case Operation::to_integer:
      return conditions ? x : any_of(type);
    default:
      return any_of(type);
  }
}

}  // namespace regard::function
