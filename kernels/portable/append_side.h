// Rows of one token, and what is done to them before they are stored: rope, and the factor of 8-bit rows.
#pragma once

#include "kernels/new_token.h"
#include "kernels/portable/append_schedule.h"
#include "kernels/portable/element.h"

namespace regard {

/// The lanes of a row, and the heads that they handle.
REGARD_DEVICE i32 lanes_of(const PortableAppendArguments& a) {
  return 1 << a.lane_bits;
}
REGARD_DEVICE i32 heads_of(const PortableAppendArguments& a) {
  return 1 << a.head_bits;
}

/// Rows of one token, one for each of some heads: its keys, its values, or its queries.
struct Side {
  const u8* from;
  i64 next_from;  // bytes to the next head
  i32 n, heads;   // columns of a row; heads to write, 0 if the token is not written
  u8* to;
  i64 next_to;
  Columns columns;  // of `to`
  bool has_factors;
  float* factor;
  i64 next_factor;  // elements
  i64 table_row;    // negative: no rope
};

/// The first number of a pair after its rotation, and the second one. fmaf says which product is rounded, so
/// that a row has the same bits whether it is written by octets or by elements.
REGARD_DEVICE float rotated_first(float first, float second, float cos, float sin) {
  return fmaf(first, cos, -(second * sin));
}
template <Rope rope>
REGARD_DEVICE float rotated_second(float first, float second, float cos, float sin) {
  return rope == Rope::half ? fmaf(second, cos, first * sin) : fmaf(first, sin, second * cos);
}

/// Rounded to nearest even; numbers beyond the largest become the largest.
template <DType dtype>
REGARD_DEVICE u32 eight_bits_of(float x) {
  if constexpr (dtype == DType::int8) {
    const float within = at_most(fmaxf(x == x ? x : 0.0f, -128.0f), 127.0f);
    return bits_as<u32>(within + 0x1.8p23f) & 0xffu;  // the sum has the integer's digits at the bottom
  } else {
    return fp8_of<dtype>(x);
  }
}

/// Whether tokens are stored in their own type, without a factor; 8-bit tokens always are.
constexpr bool same_type = config::dtype == config::kv;
static_assert(same_type || bytes_of<config::dtype> > 1);

/// The largest number of the cache's type, if it has 8 bits.
constexpr float largest_number = config::kv == DType::int8 ? 127 : largest_fp8<config::kv>;

REGARD_DEVICE bool has_token_factors(const Arguments& a) {
  return !same_type && has_factors_of_tokens(a);
}

/// The maximum over the lanes of a row, returned in each of them. Called by a whole wave.
REGARD_DEVICE float largest_of_lanes(float x, i32 lanes_of_row) {
#pragma unroll 1
  for (i32 distance = lanes_of_row / 2; distance > 0; distance /= 2)
    x = fmaxf(x, from_lane(x, lane() ^ distance));
  return x;
}

/// The factor of a row with this largest absolute value, where each token has a factor of its own.
REGARD_DEVICE float factor_of_largest(float most) {
  constexpr float smallest_normal = 0x1p-126f;
  return most / largest_number >= smallest_normal ? most / largest_number : 1;
}

}  // namespace regard
