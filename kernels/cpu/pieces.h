// Numbers of fp16, and weights, as sums of two bf16 for the tile unit: each piece has 8 bits, and fp16
// has 11. Scores are exact; of weights times V low times low, less than 2^-17 of the product, is left out.
#pragma once

#include "kernels/cpu/product.h"

namespace regard {

/// Two vectors as one of pairs, the first in the lower halves.
struct PairPieces {
  Floats high, low;
};
REGARD_INLINE PairPieces pieces_of(Floats first, Floats second) {
  const Floats high = pair_of(first, second);
  const Words words = bits_as<Words>(high);
  return {high, pair_of(first - bits_as<Floats>(words << 16), second - bits_as<Floats>(words & 0xffff0000u))};
}

/// `n` numbers of each row in memory as rows of bf16, `apart` numbers from one to the next, zeros behind the
/// n-th: the high pieces, and the low ones.
template <i64 n, i64 apart>
REGARD_CALLED void split_rows(u16* high, u16* low, const u8* from, i64 stride, i64 rows) {
  for (; rows > 0; --rows, from += stride * 2, high += apart, low += apart) {
    for (i64 i = 0; i < apart; i += lanes) {
      const Floats numbers = i + lanes <= n ? load_floats<DType::fp16>(from + i * 2)
                                            : load_floats<DType::fp16>(from + i * 2, larger<i64>(0, n - i));
      const Halves upper = bfloats(numbers);
      const Floats rest = numbers - bits_as<Floats>(__builtin_convertvector(upper, Words) << 16);
      store(high + i, upper);
      store(low + i, bfloats(select(rest == rest, rest, Floats{})));  // infinity - infinity is nothing
    }
  }
}

}  // namespace regard
