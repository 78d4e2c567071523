// Operands of products in shared memory, and how a wave loads the operands of its matrix products from
// there. Only this file and Fragment know which lane holds which elements; the loops over tiles (product.h)
// do not depend on it.
#pragma once

#include "kernels/machine/matrix.h"
#include "kernels/portable/shared_rows.h"

namespace regard {

/// The layout of an operand of c += A B in shared memory, in rows of `row_bytes`. By default, A has the rows
/// of the sums and B their columns as its rows in memory, and the summed dimension is along the columns.
/// `transposed`: the other way round.
template <i32 bytes, bool other_way>
struct SharedOperand {
  static constexpr i32 row_bytes = bytes;
  static constexpr bool transposed = other_way;
};

/// The address of a lane's row of an operand, from this column on; rows and columns are those in memory.
template <class Operand>
REGARD_DEVICE u32 shared_offset_of(LdmatrixRow lane, i32 column) {
  return shared_offset<Operand::row_bytes>(lane.row, lane.vector * 16 + column * operand_bytes);
}

/// A of a wave whose first row is `row`.
template <class Operand>
class SharedLeft {
 public:
  REGARD_DEVICE SharedLeft(u32 operand, i32 row) : first_(operand) {
    if constexpr (Operand::transposed)
      first_ += shared_offset_of<Operand>(LdmatrixRow::of_rights(), row);
    else
      first_ +=
          shared_offset_of<Operand>(LdmatrixRow::of_left(), 0) + static_cast<u32>(row * Operand::row_bytes);
  }

  /// The i-th `depth` of the summed dimension, of the m-th row tile.
  REGARD_DEVICE void load(Left& x, i32 m, i32 i) const {
    constexpr i32 row_bytes = Operand::row_bytes;
    if constexpr (Operand::transposed)
      ldmatrix_trans(x, along<row_bytes>(first_, m * Fragment::rows * operand_bytes) + i * depth * row_bytes);
    else
      ldmatrix(x, along<row_bytes>(first_, i * depth * operand_bytes) + m * Fragment::rows * row_bytes);
  }

 private:
  u32 first_;
};

/// Neighbouring column tiles, which are loaded together.
struct Right {
  static constexpr i32 tiles = 2;

  u32 x[2 * tiles];

  /// Adds to one row of column tiles.
  REGARD_DEVICE void multiply_add(Fragment* c, const Left& a) const {
#pragma unroll
    for (i32 i = 0; i < tiles; ++i) regard::multiply_add<operand>(c[i], a, x[2 * i], x[2 * i + 1]);
  }
};

/// Tiles that are loaded together are dealt out in turn to the waves that share rows: the first column of
/// the `part`-th of these waves, and the offset of its n-th column tile from there.
constexpr REGARD_INLINE i32 column_of_part(i32 part) {
  return part * Right::tiles * Fragment::columns;
}
constexpr REGARD_INLINE i32 column_of_tile(i32 n, i32 across) {
  return (n / Right::tiles * Right::tiles * across + n % Right::tiles) * Fragment::columns;
}

/// B of the `part`-th of the `across` waves that share rows.
template <class Operand, i32 across>
class SharedRight {
 public:
  REGARD_DEVICE SharedRight(u32 operand, i32 part) : first_(operand) {
    const i32 column = column_of_part(part);
    if constexpr (Operand::transposed)
      first_ += shared_offset_of<Operand>(LdmatrixRow::of_left(), column);
    else
      first_ += shared_offset_of<Operand>(LdmatrixRow::of_rights(), 0) +
                static_cast<u32>(column * Operand::row_bytes);
  }

  /// The i-th `depth` of the summed dimension, from the n-th column tile on.
  REGARD_DEVICE void load(Right& y, i32 n, i32 i) const {
    constexpr i32 row_bytes = Operand::row_bytes;
    const i32 column = column_of_tile(n, across);
    if constexpr (Operand::transposed)
      ldmatrix_trans(y.x, along<row_bytes>(first_, column * operand_bytes) + i * depth * row_bytes);
    else
      ldmatrix(y.x, along<row_bytes>(first_, i * depth * operand_bytes) + column * row_bytes);
  }

 private:
  u32 first_;
};

}  // namespace regard
