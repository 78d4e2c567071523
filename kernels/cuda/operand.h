// How a wave loads the operands of its matrix products from shared memory.
#pragma once

#include "kernels/cuda/matrix.h"
#include "kernels/portable/dealt_columns.h"
#include "kernels/portable/shared_operand.h"
#include "kernels/portable/swizzle.h"

namespace regard {

/// The address of a lane's row of an operand, from this column on; rows and columns are those in memory.
template <class Operand>
REGARD_DEVICE u32 shared_offset_of(LdmatrixRow lane, i32 column) {
  return shared_offset<Operand::row_bytes>(lane.row, lane.vector * 16 + column * operand_bytes);
}

/// A of a wave whose first row is `row`.
template <class Operand, i32 tiles>
class SharedLeft {
 public:
  static constexpr i32 interleave = 1, most_steps = all_steps;

  REGARD_DEVICE SharedLeft(u32 operand, i32 row) : first_(operand) {
    if constexpr (Operand::transposed)
      first_ += shared_offset_of<Operand>(LdmatrixRow::of_rights(), row);
    else
      first_ +=
          shared_offset_of<Operand>(LdmatrixRow::of_left(), 0) + static_cast<u32>(row * Operand::row_bytes);
  }

  /// The i-th `depth` of the sum, of all row tiles.
  REGARD_DEVICE void load(Left (&x)[tiles], i32 i) const {
#pragma unroll
    for (i32 m = 0; m < tiles; ++m) load(x[m], m, i);
  }

 private:
  REGARD_DEVICE void load(Left& x, i32 m, i32 i) const {
    constexpr i32 row_bytes = Operand::row_bytes;
    if constexpr (Operand::transposed)
      ldmatrix_trans(x, along<row_bytes>(first_, m * Fragment::rows * operand_bytes) + i * depth * row_bytes);
    else
      ldmatrix(x, along<row_bytes>(first_, i * depth * operand_bytes) + m * Fragment::rows * row_bytes);
  }

  u32 first_;
};

/// A in registers (kernels/hip/operand.h): these GPUs have too few of them.
template <i32 tiles, i32 columns>
class RegisterLeft;

/// Neighbouring column tiles, which are loaded together.
struct Right {
  static constexpr i32 tiles = 2;

  u32 x[2 * tiles];

  /// Adds to one row of column tiles.
  template <DType operand>
  REGARD_DEVICE void multiply_add(Fragment* c, const Left& a) const {
#pragma unroll
    for (i32 i = 0; i < tiles; ++i) regard::multiply_add<operand>(c[i], a, x[2 * i], x[2 * i + 1]);
  }
};

/// B of the `part`-th of the `across` waves that share rows.
template <class Operand, i32 tiles, i32 across>
class SharedRight {
 public:
  using Right = regard::Right;
  static constexpr i32 tiles_at_once = Right::tiles, interleave = 1;
  using Columns = DealtColumns<SharedRight, across>;

  REGARD_DEVICE SharedRight(u32 operand, i32 part) : first_(operand) {
    const i32 column = Columns::of_part(part);
    if constexpr (Operand::transposed)
      first_ += shared_offset_of<Operand>(LdmatrixRow::of_left(), column);
    else
      first_ += shared_offset_of<Operand>(LdmatrixRow::of_rights(), 0) +
                static_cast<u32>(column * Operand::row_bytes);
  }

  /// The i-th `depth` of the summed dimension, from the n-th column tile on.
  REGARD_DEVICE void load(Right& y, i32 n, i32 i) const {
    constexpr i32 row_bytes = Operand::row_bytes;
    const i32 column = Columns::of_tile(n);
    if constexpr (Operand::transposed)
      ldmatrix_trans(y.x, along<row_bytes>(first_, column * operand_bytes) + i * depth * row_bytes);
    else
      ldmatrix(y.x, along<row_bytes>(first_, i * depth * operand_bytes) + column * row_bytes);
  }

 private:
  u32 first_;
};

/// A step of P, as a thread has packed it, as a left operand.
REGARD_DEVICE void load_packed(Left& to, const u32 (&packed)[4]) {
#pragma unroll
  for (i32 i = 0; i < 4; ++i) to[i] = packed[i];
}

}  // namespace regard
