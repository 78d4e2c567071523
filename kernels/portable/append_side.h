// Rows of one token and what happens to them on their way: the factor of 8-bit rows, and rope.
#pragma once

#include "kernels/new_token.h"
#include "kernels/portable/append_schedule.h"
#include "kernels/portable/element.h"

namespace regard {

/// Rows of one token, one for each of some heads: its keys, its values, or its queries.
struct Side {
  const u8* from;
  u8* to;
  float* factor;                        // null: 1
  i64 next_from, next_to, next_factor;  // to the next head: bytes, bytes, elements
  Columns columns;                      // of `to`
  i32 n, heads;                         // columns of a row; heads that are written, which may be none
  i64 table_row;                        // negative: no rope
};

/// The first number of a pair after its rotation, and the second one. Each product that is rounded is named
/// here, so that a row has the same bits whichever way it is written.
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

/// Whether tokens are copied as they are; 8-bit tokens always are.
constexpr bool same_type = config::dtype == config::kv;
static_assert(same_type || bytes_of<config::dtype> > 1);

/// The largest number of the cache's type, if it has 8 bits.
constexpr float largest_number = config::kv == DType::int8 ? 127 : largest_fp8<config::kv>;

REGARD_DEVICE bool has_token_factors(const Arguments& a) {
  return !same_type && static_cast<Descale>(a.descale) == Descale::token;
}

/// The largest value of some lanes of a row, in all of them. By a whole wave.
REGARD_DEVICE float largest_of_lanes(float x, i32 lanes_of_row) {
#pragma unroll 1
  for (i32 distance = lanes_of_row / 2; distance > 0; distance /= 2)
    x = fmaxf(x, from_lane(x, lane() ^ distance));
  return x;
}

/// The factor of a row in the cache, by which its numbers are divided: one that is given, or where each token
/// has its own that of its largest absolute value, which one lane writes.
REGARD_DEVICE float factor_of_row(const Arguments& a, float* in_memory, float most, bool writes) {
  if (same_type || in_memory == nullptr) return 1;
  if (!has_token_factors(a)) return *in_memory;
  constexpr float smallest_normal = 0x1p-126f;
  const float factor = most / largest_number >= smallest_normal ? most / largest_number : 1;
  if (writes) *in_memory = factor;
  return factor;
}

}  // namespace regard
