// The lowest and the highest result that steps of a function can have for several rows and keys together.
#pragma once

#include "kernels/function/steps.h"

namespace regard::function {

/// Of int32 numbers, or of conditions as 0 and 1.
struct Interval {
  i64 low, high;

  bool single() const { return low == high; }
};

constexpr i64 lower_of(i64 a, i64 b) {
  return a < b ? a : b;
}
constexpr i64 higher_of(i64 a, i64 b) {
  return a < b ? b : a;
}

constexpr i64 lowest = -0x80000000ll, highest = 0x7fffffff;

/// All results of a step; of real numbers nothing is known.
inline Interval any_of(const FunctionStep& step) {
  return step.type == Type::boolean ? Interval{0, 1} : Interval{lowest, highest};
}

/// Sums and products that may leave int32 wrap.
inline Interval unless_it_wraps(Interval x) {
  return x.low < lowest || x.high > highest ? Interval{lowest, highest} : x;
}

inline Interval condition(bool always, bool never) {
  return {always ? 1 : 0, never ? 0 : 1};
}

inline i64 quotient_down(i64 a, i64 b) {
  return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
}

inline Interval product_of(Interval x, Interval y) {
  const i64 corners[] = {x.low * y.low, x.low * y.high, x.high * y.low, x.high * y.high};
  Interval all{corners[0], corners[0]};
  for (const i64 corner : corners) all = {lower_of(all.low, corner), higher_of(all.high, corner)};
  return unless_it_wraps(all);
}

inline Interval remainder_of(Interval x, i64 divisor) {
  const i64 quotient = quotient_down(x.low, divisor);
  if (quotient != quotient_down(x.high, divisor)) return {0, divisor - 1};
  return {x.low - quotient * divisor, x.high - quotient * divisor};
}

/// The results of an operation on int32 numbers or conditions, with `z` for the third operand.
inline Interval of_operation(const FunctionStep& step, Interval x, Interval y, Interval z) {
  const bool conditions = step.operand == Type::boolean;
  if (step.type == Type::real) return any_of(step);
  const auto sign = [](i64 n) -> i64 { return (n > 0) - (n < 0); };
  switch (static_cast<Operation>(step.which)) {
    case Operation::logical_or:
      return {x.low | y.low, x.high | y.high};
    case Operation::logical_and:
      return {x.low & y.low, x.high & y.high};
    case Operation::logical_not:
      return {1 - x.high, 1 - x.low};
    case Operation::bit_or:
      return conditions ? Interval{x.low | y.low, x.high | y.high} : any_of(step);
    case Operation::bit_and:
      if (conditions) return {x.low & y.low, x.high & y.high};
      return x.low >= 0 && y.low >= 0 ? Interval{0, lower_of(x.high, y.high)} : any_of(step);
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
      return {sign(x.low), sign(x.high)};
    case Operation::min:
      return {lower_of(x.low, y.low), lower_of(x.high, y.high)};
    case Operation::max:
      return {higher_of(x.low, y.low), higher_of(x.high, y.high)};
    case Operation::floor_divide:
      if (!y.single() || y.low <= 0) return any_of(step);
      return {quotient_down(x.low, y.low), quotient_down(x.high, y.low)};
    case Operation::modulo:
      return y.single() && y.low > 0 ? remainder_of(x, y.low) : any_of(step);
    case Operation::shift_right:
      return y.single() ? Interval{x.low >> (y.low & 31), x.high >> (y.low & 31)} : any_of(step);
    case Operation::where:
      if (x.single()) return x.low != 0 ? y : z;
      return {lower_of(y.low, z.low), higher_of(y.high, z.high)};
    case Operation::to_integer:
      return conditions ? x : any_of(step);
    default:
      return any_of(step);
  }
}

/// The results of a step that is an operation, from those of its operands, which lie in `all`.
inline Interval of_step(const FunctionStep& step, const Interval* all) {
  const auto operand = [&](int i) { return all[step.operands[i < step.count ? i : 0]]; };
  if (step.operand == Type::real) return any_of(step);
  return of_operation(step, operand(0), operand(1), operand(2));
}

}  // namespace regard::function
