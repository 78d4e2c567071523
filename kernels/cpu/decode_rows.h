// Rows of Q, K and V in memory as operands of the decode kernel's products. They are loaded from where they
// are stored: nothing is copied first, as nothing is used twice.
#pragma once

#include "kernels/cpu/transpose.h"

namespace regard {

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
/// All numbers of 8 bits are bf16 numbers, but become those only where pairs are an operand.
constexpr bool by_twos = vnni || config::kv == DType::bf16;
constexpr i64 part_numbers = by_twos ? 2 * lanes : lanes;

REGARD_INLINE void take_apart(Floats* to, Words twos) {
  to[0] = bits_as<Floats>(twos << 16);
  to[1] = bits_as<Floats>(twos & 0xffff0000u);
}

/// Whether the pairs of a row are those of its two halves: a number of 8 bits is a bf16 as the upper half of
/// an fp32, which makes them without a conversion. (Q is then stored in the same order.)
constexpr bool pairs_of_halves = vnni && config::kv != DType::bf16;

/// The bf16 numbers of `low`, which are exact, paired with those of `high`.
REGARD_INLINE Floats pair_of_exact(Floats low, Floats high) {
  return bits_as<Floats>(bits_as<Words>(low) >> 16 | (bits_as<Words>(high) & 0xffff0000u));
}

/// One part of a row in one vector: where it is read by twos, each lane is a pair of bf16.
template <DType dtype>
REGARD_INLINE Floats load_part(const u8* from) {
  const u8* const half = from + lanes * bytes_of<dtype>;
  if constexpr (pairs_of_halves)
    return pair_of_exact(load_floats<dtype>(from), load_floats<dtype>(half));
  else if constexpr (by_twos)
    return load<Floats>(from);
  else
    return load_floats<dtype>(from);
}

/// Q and K: numbers are consecutive along the depth of the product; those that overlap count as 0.
template <DType dtype>
using DepthPartsOf = RowParts<config::d, part_numbers, dtype>;
using DepthParts = DepthPartsOf<config::kv>;
constexpr int depth_vectors = by_twos && !vnni ? 2 : 1;

template <bool last, DType dtype = config::kv>
REGARD_INLINE void load_depth(Floats (&to)[depth_vectors], const u8* row, i64 part) {
  u8 copy[DepthPartsOf<dtype>::bytes];
  Floats numbers = load_part<dtype>(DepthPartsOf<dtype>::readable(row, part, copy));
  constexpr i32 overlap = static_cast<i32>(DepthParts::overlap(DepthParts::count - 1));
  if constexpr (last && overlap > 0) {
    const Ints positions = by_twos && !pairs_of_halves ? 2 * lane_numbers() : lane_numbers();
    const Ints low = positions >= overlap, other = positions + (pairs_of_halves ? lanes : 1) >= overlap;
    const Ints keep = by_twos ? (low & 0xffff) | (other << 16) : low;
    numbers = bits_as<Floats>(bits_as<Ints>(numbers) & keep);
  }
  if constexpr (depth_vectors == 2)
    take_apart(to, bits_as<Words>(numbers));
  else
    to[0] = numbers;
}

/// V: numbers are consecutive along the columns of the product. Pairs are of two keys.
constexpr int ways = vnni ? 2 : 1;
using ColumnParts = RowParts<config::dv, part_numbers, config::kv>;
constexpr int column_vectors = by_twos ? 2 : 1;

/// One part of a row or, with pairs, of this row and the next (0 unless `both` exist).
template <bool both>
REGARD_INLINE void load_columns(Floats (&to)[column_vectors], const u8* row, const u8* next, i64 part) {
  u8 copy[ColumnParts::bytes];
  const u8* from = ColumnParts::readable(row, part, copy);
  if constexpr (pairs_of_halves) {
    u8 other_copy[ColumnParts::bytes];
    const u8* other = both ? ColumnParts::readable(next, part, other_copy) : from;
    constexpr i64 half = lanes * bytes_of<config::kv>;
    REGARD_UNROLL
    for (int i = 0; i < 2; ++i) {
      const Floats b = both ? load_floats<config::kv>(other + i * half) : Floats{};
      to[i] = pair_of_exact(load_floats<config::kv>(from + i * half), b);
    }
  } else if constexpr (vnni) {
    const Numbers16 a = load<Numbers16>(from);
    Numbers16 b{};
    if constexpr (both) b = load<Numbers16>(ColumnParts::readable(next, part, copy));
    to[0] = woven<false>(a, b, NumbersBelow<2 * lanes>::type());
    to[1] = woven<true>(a, b, NumbersBelow<2 * lanes>::type());
  } else if constexpr (by_twos) {
    take_apart(to, load<Words>(from));
  } else {
    to[0] = load_floats<config::kv>(from);
  }
}

/// The lower or upper half of the numbers of a part, from its two vectors.
template <bool upper, int... lane>
REGARD_INLINE Floats in_order(Floats a, Floats b, Numbers<lane...>) {
  if constexpr (pairs_of_halves)
    return upper ? b : a;
  else if constexpr (vnni)
    return __builtin_shufflevector(a, b,
                                   ((lane + upper * lanes) / 8 * 4 + lane % 4 + lane % 8 / 4 * lanes)...);
  else
    return __builtin_shufflevector(a, b, ((lane + upper * lanes) / 2 + lane % 2 * lanes)...);
}

/// Stores sums over products with load_columns' vectors, in the order of the row.
REGARD_INLINE void store_columns(float* row, const float* sums) {
  for (i64 part = 0; part < ColumnParts::count; ++part, sums += part_numbers) {
    float* to = row + ColumnParts::first(part);
    const Floats a = load<Floats>(sums);
    if constexpr (by_twos) {
      const Floats b = load<Floats>(sums + lanes);
      store(to, in_order<false>(a, b, NumbersBelow<lanes>::type()));
      store(to + lanes, in_order<true>(a, b, NumbersBelow<lanes>::type()));
    } else {
      store(to, a);
    }
  }
}

}  // namespace regard
