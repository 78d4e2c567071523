// Arithmetic shared by all kernels.
#pragma once

#include "kernels/arguments.h"
#include "kernels/inline.h"

namespace regard {

template <class To, class From>
constexpr REGARD_INLINE To bits_as(From from) {
  return __builtin_bit_cast(To, from);
}

constexpr float infinity = __builtin_bit_cast(float, 0x7f800000);
constexpr float log2_of_e = 1.44269504088896340736f;

template <DType dtype>
constexpr int bytes_of = dtype == DType::fp32                           ? 4
                         : dtype == DType::bf16 || dtype == DType::fp16 ? 2
                                                                        : 1;

/// The size of a type that is given as an argument.
constexpr REGARD_INLINE i64 bytes_of_dtype(i32 dtype) {
  switch (static_cast<DType>(dtype)) {
    case DType::fp32:
      return 4;
    case DType::bf16:
    case DType::fp16:
      return 2;
    default:
      return 1;
  }
}

template <class Number>
constexpr REGARD_INLINE Number smaller(Number a, Number b) {
  return a < b ? a : b;
}
template <class Number>
constexpr REGARD_INLINE Number larger(Number a, Number b) {
  return a > b ? a : b;
}
constexpr REGARD_INLINE i64 ceil_divide(i64 a, i64 b) {
  return (a + b - 1) / b;
}
constexpr REGARD_INLINE i64 round_up(i64 a, i64 multiple) {
  return ceil_divide(a, multiple) * multiple;
}

}  // namespace regard
