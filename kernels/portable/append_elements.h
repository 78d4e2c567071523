// Rows of new tokens of any layout, element by element.
#pragma once

#include "kernels/portable/append_side.h"

namespace regard {

/// A number of a row of a rope table, which is in Q's type or fp32.
REGARD_DEVICE float number_of_table(const NewTokens& added, const Rows& table, i64 row, i32 pair) {
  const u8* const memory = static_cast<const u8*>(table.data);
  const i64 index = row * table.row + pair;
  return static_cast<DType>(added.rope_type) == DType::fp32 ? load_element<DType::fp32>(memory, index)
                                                            : load_element<config::dtype>(memory, index);
}

/// A column of a row at `from` after its rotation, if it has one.
REGARD_DEVICE float rotated_element(const NewTokens& added, const u8* from, i64 table_row, i32 column) {
  const float x = load_element<config::dtype>(from, column);
  if (table_row < 0 || column >= added.rotary) return x;
  const bool halves = static_cast<Rope>(added.rope) == Rope::half;
  const i32 pairs = added.rotary / 2;
  const bool is_second = halves ? column >= pairs : column % 2 == 1;
  const i32 distance = is_second ? -(halves ? pairs : 1) : halves ? pairs : 1;
  const i32 pair = !halves ? column / 2 : is_second ? column - pairs : column;
  const float other = load_element<config::dtype>(from, column + distance);
  const float cos = number_of_table(added, added.cos, table_row, pair);
  const float sin = number_of_table(added, added.sin, table_row, pair);
  if (!is_second) return rotated_first(x, other, cos, sin);
  return halves ? rotated_second<Rope::half>(other, x, cos, sin)
                : rotated_second<Rope::interleaved>(other, x, cos, sin);
}

template <DType dtype>
REGARD_DEVICE void store_one(u8* to, float x) {
  if constexpr (bytes_of<dtype> == 1)
    *to = static_cast<u8>(eight_bits_of<dtype>(x));
  else
    store_element<dtype>(to, 0, x);
}

/// One element as it is.
REGARD_DEVICE void copy_element(u8* to, const u8* from) {
  if constexpr (bytes_of<config::dtype> == 1)
    *to = *from;
  else
    copy_bytes<bytes_of<config::dtype>>(to, from);
}

/// Writes the rows of `side`, which differs between groups of lanes, into the cache or as queries. Called by
/// a whole wave.
template <DType dtype, bool in_cache>
REGARD_DEVICE void write_elements(const PortableAppendArguments& a, Side side) {
  const i32 lanes_of_row = lanes_of(a), begin = lane() & (lanes_of_row - 1);
#pragma unroll 1
  for (i32 head = 0; head < heads_of(a); ++head) {
    const i32 n = head < side.heads ? side.n : 0;
    float factor = 1;
    if (in_cache && has_token_factors(a)) {
      float most = 0;
#pragma unroll 1
      for (i32 column = begin; column < n; column += lanes_of_row)
        most = fmaxf(most, fabsf(rotated_element(a.added, side.from, side.table_row, column)));
      factor = factor_of_largest(largest_of_lanes(most, lanes_of_row));
      if (n > 0 && begin == 0) *side.factor = factor;
    } else if (in_cache && !same_type && side.has_factors && n > 0) {
      factor = *side.factor;
    }
    const float inverse = 1.0f / factor;
#pragma unroll 1
    for (i32 column = begin; column < n; column += lanes_of_row) {
      u8* const to = side.to + side.columns.element(column) * bytes_of<dtype>;
      if (dtype == config::dtype && side.table_row < 0) {
        copy_element(to, side.from + static_cast<i64>(column) * bytes_of<config::dtype>);
        continue;
      }
      const float x = rotated_element(a.added, side.from, side.table_row, column);
      store_one<dtype>(to, bytes_of<dtype> == 1 ? x * inverse : x);
    }
    side.from += side.next_from, side.to += side.next_to;
    side.factor += side.next_factor;
  }
}

}  // namespace regard
