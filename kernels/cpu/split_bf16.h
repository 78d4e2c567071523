// Numbers of fp16, weights and dS as sums of two bf16 numbers for the tile unit: each piece has 8
// significant bits, and fp16 has 11. Q K^T and dO V^T are exact; in products of weights and of dS, low times
// low (less than 2^-17) is left out.
#pragma once

#include "kernels/cpu/attributes.h"
#include "kernels/cpu/pack_transposed.h"

namespace regard {

/// The remainder of numbers after their high pieces are taken; 0 for infinity.
REGARD_INLINE Floats rest_of_bfloat(Floats numbers) {
  const Words high = widened(bfloats(numbers)) << 16;
  const Floats rest = numbers - bits_as<Floats>(high);
  return select(rest == rest, rest, Floats{});
}

/// Two vectors as one of pairs, the first in the lower halves; the low pieces are stored `low` elements
/// further.
template <i64 low>
REGARD_INLINE void store_vnni(float* to, Floats first, Floats second) {
  store(to, pair_of(first, second));
  if constexpr (pieces == 2) store(to + low, pair_of(rest_of_bfloat(first), rest_of_bfloat(second)));
}

/// `n` numbers of each row in memory as rows of bf16, `apart` numbers apart and padded with zeros: the high
/// pieces, and the low ones.
template <i64 n, i64 apart>
REGARD_NOINLINE void split_rows(u16* high, u16* low, const u8* from, i64 stride, i64 rows) {
  for (; rows > 0; --rows, from += stride * 2, high += apart, low += apart) {
    for (i64 i = 0; i < apart; i += lanes) {
      const Floats numbers = i + lanes <= n ? load_floats<DType::fp16>(from + i * 2)
                                            : load_floats<DType::fp16>(from + i * 2, larger<i64>(0, n - i));
      store(high + i, bfloats(numbers));
      store(low + i, bfloats(rest_of_bfloat(numbers)));
    }
  }
}

/// pack_rows for numbers in two pieces.
template <i64 n>
REGARD_NOINLINE void pack_row_pieces(float* to, i64 low, const u8* from, i64 stride, i64 rows, i64 capacity) {
  constexpr i64 apart = depth(n);
  split_rows<n, 2 * apart>(reinterpret_cast<u16*>(to), reinterpret_cast<u16*>(to + low), from, stride, rows);
  for (i64 piece = 0; piece < 2; ++piece)
    __builtin_memset(to + piece * low + rows * apart, 0, (capacity - rows) * apart * 4);
}

/// pack_transposed_rows for numbers in two pieces. `memory` holds the pieces of transposed_rows rows.
template <i64 n, i64 capacity>
REGARD_NOINLINE void pack_transposed_row_pieces(float* to, i64 low, const u8* from, i64 stride, i64 rows,
                                                u16* memory) {
  constexpr i64 apart = round_up(n, lanes), below = lanes * depth(capacity);
  u16* const low_memory = memory + transposed_rows * apart;
  for (i64 first = 0; first < capacity; first += transposed_rows, to += transposed_rows / 2 * lanes) {
    const i64 count = larger<i64>(0, smaller(transposed_rows, rows - first));
    split_rows<n, apart>(memory, low_memory, row_address(from, stride, first), stride, count);
    transpose_rows<apart>(to, below, reinterpret_cast<const u8*>(memory), apart * 2, count);
    transpose_rows<apart>(to + low, below, reinterpret_cast<const u8*>(low_memory), apart * 2, count);
  }
}

}  // namespace regard
