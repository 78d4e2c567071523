// Rows of Q, K and V in memory as operands of the decode kernel's products. They are loaded from where they
// are stored: nothing is copied first, as nothing is used twice.
#pragma once

#include "kernels/cpu/byte_tables.h"
#include "kernels/cpu/transpose.h"

namespace regard {

/// The type of the rows of K and V that are multiplied: rows whose columns have factors have been converted
/// to Q's type.
constexpr DType row_type = config::descale == Descale::columns ? config::dtype : config::kv;

/// The prefetch distance in rows. Rows go to the L2 cache, as L1 is too small.
constexpr i64 rows_ahead = config::block_k;

/// A row of n numbers in parts of `numbers` each. The last part ends where the row ends: it overlaps the
/// part before it, and nothing past the row is read.
template <i64 n, i64 numbers, DType dtype>
struct RowParts {
  static constexpr i64 count = ceil_divide(n, numbers);
  static constexpr i64 first(i64 part) { return larger<i64>(0, smaller(part * numbers, n - numbers)); }
  static constexpr i64 overlap(i64 part) { return part * numbers - first(part); }
  static constexpr i64 bytes = numbers * bytes_of<dtype>;

  static constexpr i64 row_bytes = n * bytes_of<dtype>;

  /// The address from which a part can be read. A row shorter than a part is copied to `copy` and padded
  /// with zeros.
  static REGARD_INLINE const u8* readable(const u8* row, i64 part, u8 (&copy)[bytes]) {
    if constexpr (n < numbers) {
      __builtin_memset(copy, 0, bytes);
      __builtin_memcpy(copy, row, n * bytes_of<dtype>);
      return copy;
    } else {
      return row + first(part) * bytes_of<dtype>;
    }
  }
};

/// bf16 is read as 32-bit words of two neighbours. If pairs are not an operand, they are split into a vector
/// of the even ones and a vector of the odd ones: two instructions, whereas conversion in order takes four.
constexpr bool by_twos = vnni || row_type == DType::bf16;
/// Where pairs are an operand, 8-bit numbers become bf16, in which each is exact, by tables if these fit into
/// registers.
constexpr bool by_tables = vnni && target::avx512 && bytes_of<row_type> == 1;
constexpr i64 part_numbers = (by_tables ? 4 : by_twos ? 2 : 1) * lanes;

REGARD_INLINE void take_apart(Floats* to, Words twos) {
  to[0] = bits_as<Floats>(twos << 16);
  to[1] = bits_as<Floats>(twos & 0xffff0000u);
}

/// Two vectors of 8-bit numbers as one of bf16.
template <DType dtype>
REGARD_INLINE Floats load_bfloats(const u8* from) {
  u16 numbers[2 * lanes];
  store_bfloats(numbers, load_floats<dtype>(from), load_floats<dtype>(from + lanes));
  return load<Floats>(numbers);
}

/// As many 16-bit numbers as a vector has, or 8-bit numbers as such.
template <DType dtype>
REGARD_INLINE Floats load_twos(const u8* from) {
  if constexpr (bytes_of<dtype> == 1)
    return load_bfloats<dtype>(from);
  else
    return load<Floats>(from);
}

/// Q and K: numbers are consecutive along the depth of the product; those that overlap count as 0.
template <DType dtype>
using DepthPartsOf = RowParts<config::d, part_numbers, dtype>;
using DepthParts = DepthPartsOf<row_type>;
constexpr int depth_vectors = by_tables || (by_twos && !vnni) ? 2 : 1;

/// The 128 bits of two vectors, first those with even numbers: the order of bfloats_of_bytes.
template <bool odd, int... lane>
REGARD_INLINE Floats every_second_group(Floats a, Floats b, Numbers<lane...>) {
  return __builtin_shufflevector(a, b, (lane / 4 * 8 + odd * 4 + lane % 4)...);
}

/// Those numbers of the last part that the part before it has become 0. `positions`: of the first number of
/// each lane.
REGARD_INLINE Floats without_overlap(Floats numbers, Ints positions) {
  constexpr i32 overlap = static_cast<i32>(DepthParts::overlap(DepthParts::count - 1));
  const Ints low = positions >= overlap, high = positions + 1 >= overlap;
  return bits_as<Floats>(bits_as<Ints>(numbers) & (by_twos ? (low & 0xffff) | (high << 16) : low));
}

template <bool last, DType dtype = row_type>
REGARD_INLINE void load_depth(Floats (&to)[depth_vectors], const u8* row, i64 part) {
  u8 copy[DepthPartsOf<dtype>::bytes];
  constexpr bool overlaps = last && DepthParts::overlap(DepthParts::count - 1) > 0;
  if constexpr (by_tables) {
    if constexpr (dtype == row_type) {
      bfloats_of_bytes<dtype>(to, load_bytes<config::d>(row + DepthParts::first(part)));
    } else {
      const u8* const from = DepthPartsOf<dtype>::readable(row, part, copy);
      const Floats a = load<Floats>(from), b = load<Floats>(from + sizeof(Floats));
      to[0] = every_second_group<false>(a, b, NumbersBelow<lanes>::type());
      to[1] = every_second_group<true>(a, b, NumbersBelow<lanes>::type());
    }
    if constexpr (overlaps) {
      const Ints first = lane_numbers() / 4 * 16 + lane_numbers() % 4 * 2;
      to[0] = without_overlap(to[0], first);
      to[1] = without_overlap(to[1], first + 8);
    }
  } else {
    const u8* const from = DepthPartsOf<dtype>::readable(row, part, copy);
    Floats numbers;
    if constexpr (by_twos)
      numbers = load_twos<dtype>(from);
    else
      numbers = load_floats<dtype>(from);
    if constexpr (overlaps) numbers = without_overlap(numbers, by_twos ? 2 * lane_numbers() : lane_numbers());
    if constexpr (depth_vectors == 2)
      take_apart(to, bits_as<Words>(numbers));
    else
      to[0] = numbers;
  }
}

/// V: numbers are consecutive along the columns of the product. Pairs are of two keys.
constexpr int ways = vnni ? 2 : 1;
using ColumnParts = RowParts<config::dv, part_numbers, row_type>;
constexpr int column_vectors = by_tables ? 4 : by_twos ? 2 : 1;

/// One part of a row or, with pairs, of this row and the next (0 unless `both` exist).
template <bool both>
REGARD_INLINE void load_columns(Floats (&to)[column_vectors], const u8* row, const u8* next, i64 part) {
  if constexpr (by_tables) {
    const Bytes a = load_bytes<config::dv>(row + ColumnParts::first(part));
    Bytes b{};
    if constexpr (both) b = load_bytes<config::dv>(next + ColumnParts::first(part));
    bfloats_of_bytes<row_type>(to, in_turn<false>(a, b));
    bfloats_of_bytes<row_type>(to + 2, in_turn<true>(a, b));
  } else {
    u8 copy[ColumnParts::bytes];
    const u8* from = ColumnParts::readable(row, part, copy);
    if constexpr (vnni) {
      const Numbers16 a = bits_as<Numbers16>(load_twos<row_type>(from));
      Numbers16 b{};
      if constexpr (both)
        b = bits_as<Numbers16>(load_twos<row_type>(ColumnParts::readable(next, part, copy)));
      to[0] = interleaved<false>(a, b, NumbersBelow<2 * lanes>::type());
      to[1] = interleaved<true>(a, b, NumbersBelow<2 * lanes>::type());
    } else if constexpr (by_twos) {
      take_apart(to, load<Words>(from));
    } else {
      to[0] = load_floats<row_type>(from);
    }
  }
}

/// The lower or upper half of the numbers of a part, from its two vectors.
template <bool upper, int... lane>
REGARD_INLINE Floats in_order(Floats a, Floats b, Numbers<lane...>) {
  if constexpr (vnni)
    return __builtin_shufflevector(
        a, b, ((lane + upper * lanes) / 8 * 4 + lane % 4 + (lane + upper * lanes) % 8 / 4 * lanes)...);
  else
    return __builtin_shufflevector(a, b, ((lane + upper * lanes) / 2 + lane % 2 * lanes)...);
}

/// Stores sums over products with load_columns' vectors, in the order of the row.
REGARD_INLINE void store_columns(float* row, const float* sums) {
  for (i64 part = 0; part < ColumnParts::count; ++part, sums += part_numbers) {
    float* to = row + ColumnParts::first(part);
    const Floats a = load<Floats>(sums);
    if constexpr (by_tables) {  // each vector has a quarter of each 16 columns
      for (i64 i = 0; i < part_numbers; i += 4)
        __builtin_memcpy(to + i, sums + i / 4 % 4 * lanes + i / 16 * 4, 16);
    } else if constexpr (by_twos) {
      const Floats b = load<Floats>(sums + lanes);
      store(to, in_order<false>(a, b, NumbersBelow<lanes>::type()));
      store(to + lanes, in_order<true>(a, b, NumbersBelow<lanes>::type()));
    } else {
      store(to, a);
    }
  }
}

}  // namespace regard
