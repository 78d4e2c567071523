// What a CPU kernel needs from a head: its rows, its numbers as lanes.
#pragma once

#include "kernels/cpu/attributes.h"
#include "kernels/cpu/convert.h"
#include "kernels/cpu/exp.h"
#include "kernels/cpu/key_ranges.h"
#include "kernels/head.h"

namespace regard {

/// Not inlined: kernels use it in several places, rarely, and each would have to be compiled.
REGARD_NOINLINE inline Head head_of(const Arguments& a, i64 batch, i64 head) {
  return Head(a, batch, head);
}

/// ALiBi adds to scores, with one slope per head.
constexpr bool alibi = config::bias == Bias::alibi || config::bias == Bias::alibi_batch;
/// A bias tensor adds to scores, with one number per pair of a query and a key.
constexpr bool elementwise_bias = config::bias != Bias::none && !alibi;

/// Calls function<dtype>() with the type of an elementwise bias: that of Q, or fp32.
template <class Function>
REGARD_INLINE void with_bias_type(const Arguments& a, const Function& function) {
  if (config::dtype == DType::fp32 || a.bias_dtype == static_cast<i32>(DType::fp32))
    function.template operator()<DType::fp32>();
  else
    function.template operator()<config::dtype>();
}

/// row[0, n) * factor as numbers of `dtype`.
template <DType dtype, i64 n>
REGARD_NOINLINE void store_row(u8* to, const float* row, float factor) {
  constexpr i64 whole = n / lanes * lanes;
  for (i64 i = 0; i < whole; i += lanes)
    store_floats<dtype>(to + i * bytes_of<dtype>, load<Floats>(row + i) * factor);
  for (i64 i = whole; i < n; ++i) store_scalar<dtype>(to, i, row[i] * factor);
}

}  // namespace regard
