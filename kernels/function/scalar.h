// What each operation of a function computes from one number per operand. int32 numbers and conditions, 0 or
// 1, are words.
#pragma once

#include "kernels/function/math.h"
#include "kernels/function/operations.h"
#include "kernels/function/whole.h"

namespace regard::function {

REGARD_INLINE float real(double x) {
  return static_cast<float>(x);
}

/// Types of captured tensors that kernels have no DType for: enum regard_dtype of include/regard/regard.h
/// (checked in src/engine/bind_function.cpp).
constexpr i32 captured_uint8 = 18, captured_int64 = 20;

constexpr REGARD_INLINE bool is_comparison(Operation operation) {
  return operation == Operation::less || operation == Operation::less_equal ||
         operation == Operation::equal || operation == Operation::not_equal;
}

template <Operation operation, class Number>
REGARD_INLINE u32 compared(Number a, Number b) {
  if constexpr (operation == Operation::less)
    return a < b ? 1u : 0u;
  else if constexpr (operation == Operation::less_equal)
    return a <= b ? 1u : 0u;
  else if constexpr (operation == Operation::equal)
    return a == b ? 1u : 0u;
  else
    return a != b ? 1u : 0u;
}

/// Of conditions.
template <Operation operation>
REGARD_INLINE auto of_conditions(u32 x, u32 y) {
  if constexpr (operation == Operation::logical_or || operation == Operation::bit_or)
    return x | y;
  else if constexpr (operation == Operation::logical_and || operation == Operation::bit_and)
    return x & y;
  else if constexpr (operation == Operation::bit_xor)
    return x ^ y;
  else if constexpr (operation == Operation::to_real)
    return static_cast<float>(x);
  else if constexpr (operation == Operation::to_integer)
    return x;
  else  // ! and ~
    return x ^ 1u;
}

/// Of int32 numbers.
template <Operation operation>
REGARD_INLINE auto of_integers(u32 x, u32 y) {
  const i32 a = signed_of(x), b = signed_of(y);
  if constexpr (is_comparison(operation))
    return compared<operation>(a, b);
  else if constexpr (operation == Operation::add)
    return x + y;
  else if constexpr (operation == Operation::subtract)
    return x - y;
  else if constexpr (operation == Operation::multiply)
    return x * y;
  else if constexpr (operation == Operation::floor_divide)
    return floor_quotient(x, y);
  else if constexpr (operation == Operation::modulo)
    return floor_remainder(x, y);
  else if constexpr (operation == Operation::shift_left)
    return x << (y & 31u);
  else if constexpr (operation == Operation::shift_right)
    return static_cast<u32>(a >> (y & 31u));
  else if constexpr (operation == Operation::bit_and)
    return x & y;
  else if constexpr (operation == Operation::bit_or)
    return x | y;
  else if constexpr (operation == Operation::bit_xor)
    return x ^ y;
  else if constexpr (operation == Operation::bit_not)
    return ~x;
  else if constexpr (operation == Operation::negate)
    return 0u - x;
  else if constexpr (operation == Operation::abs)
    return a < 0 ? 0u - x : x;
  else if constexpr (operation == Operation::sign)
    return static_cast<u32>((a > 0) - (a < 0));
  else if constexpr (operation == Operation::min)
    return b < a ? y : x;
  else if constexpr (operation == Operation::max)
    return a < b ? y : x;
  else  // float
    return static_cast<float>(a);
}

/// Of real numbers.
template <Operation operation>
REGARD_INLINE auto of_reals(float x, float y) {
  if constexpr (is_comparison(operation))
    return compared<operation>(x, y);
  else if constexpr (operation == Operation::to_integer)
    return static_cast<u32>(integer_of(x));
  else if constexpr (operation == Operation::negate)
    return -x;
  else if constexpr (operation == Operation::abs)
    return bits_as<float>(bits_as<u32>(x) & 0x7fffffffu);
  else if constexpr (operation == Operation::add)
    return x + y;
  else if constexpr (operation == Operation::subtract)
    return x - y;
  else if constexpr (operation == Operation::multiply)
    return x * y;
  else if constexpr (operation == Operation::divide)
    return x / y;
  else if constexpr (operation == Operation::floor_divide)
    return floor_of(x / y);
  else if constexpr (operation == Operation::modulo)
    return x - y * floor_of(x / y);
  else if constexpr (operation == Operation::min)
    return x != x ? x : y < x || y != y ? y : x;
  else if constexpr (operation == Operation::max)
    return x != x ? x : x < y || y != y ? y : x;
  else if constexpr (operation == Operation::sign)
    return x != x ? x : static_cast<float>((x > 0) - (x < 0));
  else if constexpr (operation == Operation::floor)
    return floor_of(x);
  else if constexpr (operation == Operation::ceil)
    return -floor_of(-x);
  else if constexpr (operation == Operation::round)
    return round_of(x);
  else if constexpr (operation == Operation::exp)
    return real(exp_of(x));
  else if constexpr (operation == Operation::exp2)
    return real(exp2_of(x));
  else if constexpr (operation == Operation::log)
    return real(log2_of(x) * ln2);
  else if constexpr (operation == Operation::log2)
    return real(log2_of(x));
  else if constexpr (operation == Operation::tanh)
    return real(tanh_of(x));
  else if constexpr (operation == Operation::sigmoid)
    return real(1 / (1 + exp_of(-x)));
  else if constexpr (operation == Operation::sqrt)
    return real(root_of(x));  // exactly the root in fp32: rounding twice does not change it
  else if constexpr (operation == Operation::rsqrt)
    return real(1 / root_of(x));
  else if constexpr (operation == Operation::sin)
    return real(sin_of(x, 0));
  else if constexpr (operation == Operation::cos)
    return real(sin_of(x, 1));
  else if constexpr (operation == Operation::pow)
    return real(pow_of(x, y));
  else
    return x;
}

}  // namespace regard::function
