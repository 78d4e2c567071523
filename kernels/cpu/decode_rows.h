// Rows of Q, K and V in memory as operands of the decode kernel's products, loaded as they lie: nothing is
// copied first, as nothing is used twice.
#pragma once

#include "kernels/cpu/transpose.h"

namespace regard {

/// Rows are fetched so many before they are used, into the second cache, as the first is too small.
constexpr i64 rows_ahead = key::block_k;

/// A row of n numbers in parts of `numbers` each. The last part ends with the row: it overlaps the one
/// before, and nothing behind the row is read.
template <i64 n, i64 numbers>
struct RowParts {
  static constexpr i64 count = ceil_divide(n, numbers);
  static constexpr i64 first(i64 part) { return larger<i64>(0, smaller(part * numbers, n - numbers)); }
  static constexpr i64 overlap(i64 part) { return part * numbers - first(part); }
  static constexpr i64 bytes = numbers * bytes_of<key::dtype>;

  static constexpr i64 row_bytes = n * bytes_of<key::dtype>;

  /// Where a part can be read. A row shorter than a part goes to `copy`, with zeros behind it.
  static REGARD_INLINE const u8* readable(const u8* row, i64 part, u8 (&copy)[bytes]) {
    if constexpr (n < numbers) {
      __builtin_memset(copy, 0, bytes);
      __builtin_memcpy(copy, row, n * bytes_of<key::dtype>);
      return copy;
    } else {
      return row + first(part) * bytes_of<key::dtype>;
    }
  }
};

/// Q and K: numbers lie along the depth of the product, those of an overlap count as 0.
using DepthParts = RowParts<key::d, pairs ? 2 * lanes : lanes>;

template <bool last>
REGARD_INLINE Floats load_depth(const u8* row, i64 part) {
  u8 copy[DepthParts::bytes];
  const u8* from = DepthParts::readable(row, part, copy);
  Floats operands;
  if constexpr (pairs)
    operands = load<Floats>(from);
  else
    operands = load_floats<key::dtype>(from);
  constexpr i32 overlap = static_cast<i32>(DepthParts::overlap(DepthParts::count - 1));
  if constexpr (!last || overlap <= 0) return operands;
  const Ints numbers = pairs ? 2 * lane_numbers() : lane_numbers();
  const Ints low = numbers >= overlap;
  const Ints keep = pairs ? (low & 0xffff) | ((numbers + 1 >= overlap) << 16) : low;
  return bits_as<Floats>(bits_as<Ints>(operands) & keep);
}

/// V: numbers lie along the columns of the product. A part of a pair of rows is two vectors.
constexpr int ways = pairs ? 2 : 1;
using ColumnParts = RowParts<key::dv, ways * lanes>;

typedef u16 Numbers16 __attribute__((vector_size(target::vector_bytes)));

/// Of every 128 bits the lower or upper half of `a` and `b`, number by number in turn: one instruction.
template <bool upper, int... n>
REGARD_INLINE Floats woven(Numbers16 a, Numbers16 b, Numbers<n...>) {
  return bits_as<Floats>(
      __builtin_shufflevector(a, b, (n / 8 * 8 + upper * 4 + n % 8 / 2 + n % 2 * 2 * lanes)...));
}

/// One part of a row, or, with pairs, of this row and the next (0 unless `both` are there).
template <bool both>
REGARD_INLINE void load_columns(Floats* to, const u8* row, i64 stride, i64 part) {
  u8 copy[ColumnParts::bytes];
  const u8* from = ColumnParts::readable(row, part, copy);
  if constexpr (pairs) {
    const Numbers16 a = load<Numbers16>(from);
    Numbers16 b{};
    if constexpr (both) b = load<Numbers16>(ColumnParts::readable(row + stride, part, copy));
    to[0] = woven<false>(a, b, NumbersBelow<2 * lanes>::type());
    to[1] = woven<true>(a, b, NumbersBelow<2 * lanes>::type());
  } else {
    to[0] = load_floats<key::dtype>(from);
  }
}

template <bool upper, int... lane>
REGARD_INLINE Floats unwoven(Floats a, Floats b, Numbers<lane...>) {
  return __builtin_shufflevector(a, b, ((lane + upper * lanes) / 8 * 4 + lane % 4 + lane % 8 / 4 * lanes)...);
}

/// Sums over products with load_columns' vectors, in the order of the row.
REGARD_INLINE void store_columns(float* row, const float* sums) {
  for (i64 part = 0; part < ColumnParts::count; ++part, sums += ways * lanes) {
    float* to = row + ColumnParts::first(part);
    if constexpr (pairs) {
      const Floats a = load<Floats>(sums), b = load<Floats>(sums + lanes);
      store(to, unwoven<false>(a, b, NumbersBelow<lanes>::type()));
      store(to + lanes, unwoven<true>(a, b, NumbersBelow<lanes>::type()));
    } else {
      store(to, load<Floats>(sums));
    }
  }
}

}  // namespace regard
