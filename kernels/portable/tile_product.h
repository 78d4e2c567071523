// Sums += A B of tiles in shared memory, which may lie there as they are or transposed, by matrix
// instructions.
#pragma once

#include "kernels/machine/matrix.h"
#include "kernels/portable/shared_rows.h"

namespace regard {

/// An operand in shared memory, with rows of `row_bytes` from `first` on. As the sums need it: A has their
/// rows and B their columns in rows, both numbers that are multiplied with each other in columns.
/// `transposed`: it lies the other way.
template <i32 bytes, bool other_way>
struct SharedOperand {
  static constexpr i32 row_bytes = bytes;
  static constexpr bool transposed = other_way;

  u32 first;
};

template <class Operand>
REGARD_DEVICE u32 place_of(LdmatrixRow lane, i32 column) {
  return place<Operand::row_bytes>(lane.row, lane.vector * 16 + column * operand_bytes);
}

/// Pairs of neighbouring column tiles go around among the `across` waves that share rows: the n-th of a wave.
constexpr REGARD_INLINE i32 column_of_tile(i32 n, i32 across) {
  return (n / 2 * 2 * across + n % 2) * Fragment::columns;
}

/// What changes scores takes registers from the products, which then may not read far ahead, nor have other
/// work beside them.
constexpr i32 score_tiles = row_tiles * key_tiles;
constexpr bool many_scores = score_tiles > (target::tight_registers ? 7 : 8);
constexpr bool is_rich =
    key::softcap || (key::dropout && key::bias != Bias::none) ||
    ((key::dropout || key::bits || (target::tight_registers && key::dbias)) && many_scores);

/// c += A B over `length` numbers. `row`: the first row of the wave in A. `part`: which of the `across` waves
/// with the same rows it is.
template <bool by_matrix>
struct TileProduct;

template <>
struct TileProduct<true> {
  template <i32 length, i32 across, i32 tiles_m, i32 tiles_n, class A, class B>
  REGARD_DEVICE static void add(Fragment (&c)[tiles_m][tiles_n], A a, B b, i32 row, i32 part) {
    static_assert(length % depth == 0 && tiles_n % 2 == 0);
    constexpr i32 bytes = depth * operand_bytes, all = length / depth;
    constexpr i32 together = is_rich ? 1 : key::bias == Bias::alibi && score_tiles > 8 ? 2 : all;
    // In rows of memory: of A transposed they are those that are multiplied with each other.
    u32 left = a.first, right = b.first;
    left += A::transposed ? place_of<A>(LdmatrixRow::of_rights(), row)
                          : place_of<A>(LdmatrixRow::of_left(), 0) + static_cast<u32>(row * A::row_bytes);
    const i32 column = part * 2 * Fragment::columns;
    right += B::transposed
                 ? place_of<B>(LdmatrixRow::of_left(), column)
                 : place_of<B>(LdmatrixRow::of_rights(), 0) + static_cast<u32>(column * B::row_bytes);
#pragma unroll together
    for (i32 i = 0; i < length / depth; ++i) {
      Left x[tiles_m];
#pragma unroll
      for (i32 m = 0; m < tiles_m; ++m) {
        if constexpr (A::transposed)
          ldmatrix_trans(
              x[m], along<A::row_bytes>(left, m * Fragment::rows * operand_bytes) + i * depth * A::row_bytes);
        else
          ldmatrix(x[m], along<A::row_bytes>(left, i * bytes) + m * Fragment::rows * A::row_bytes);
      }
#pragma unroll
      for (i32 n = 0; n < tiles_n; n += 2) {
        const i32 offset = column_of_tile(n, across);
        u32 y[4];
        if constexpr (B::transposed)
          ldmatrix_trans(y, along<B::row_bytes>(right, offset * operand_bytes) + i * depth * B::row_bytes);
        else
          ldmatrix(y, along<B::row_bytes>(right, i * bytes) + offset * B::row_bytes);
#pragma unroll
        for (i32 m = 0; m < tiles_m; ++m) {
          multiply_add<operand>(c[m][n], x[m], y[0], y[1]);
          multiply_add<operand>(c[m][n + 1], x[m], y[2], y[3]);
        }
      }
    }
  }
};

}  // namespace regard
