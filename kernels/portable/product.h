// Sums += A B by matrix instructions. A comes from shared memory, or from the registers of its wave (p.h); B
// comes from shared memory.
#pragma once

#include "kernels/machine/operand.h"
#include "kernels/portable/shared_rows.h"

namespace regard {

/// By matrix instructions or, in fp32, by multiply-adds (product_fp32.h). Its A and B are the parts of an
/// operand in shared memory that a wave multiplies: `tiles` rows or columns of fragments. `together`: how
/// many steps of `depth` are unrolled, among which the compiler may read ahead.
template <bool by_matrix, i32 together>
struct Product;

template <i32 together>
struct Product<true, together> {
  template <class Operand, i32 tiles>
  using A = SharedLeft<Operand, tiles>;
  template <class Operand, i32 tiles, i32 across = 1>
  using B = SharedRight<Operand, tiles, across>;

  /// c += A B over `length` numbers.
  template <i32 length, i32 tiles_m, i32 tiles_n, class OperandA, class OperandB>
  REGARD_DEVICE static void add(Fragment (&c)[tiles_m][tiles_n], const OperandA& a, const OperandB& b) {
    using Right = typename OperandB::Right;
    static_assert(length % depth == 0 && tiles_n % Right::tiles == 0);
    constexpr i32 steps = length / depth, unrolled = smaller(steps, smaller(together, OperandA::most_steps));
#pragma unroll unrolled
    for (i32 i = 0; i < steps; ++i) {
      Left x[tiles_m];
      a.load(x, i);
#pragma unroll
      for (i32 n = 0; n < tiles_n; n += Right::tiles) {
        Right y;
        b.load(y, n, i);
#pragma unroll
        for (i32 m = 0; m < tiles_m; ++m) y.template multiply_add<operand>(&c[m][n], x[m]);
      }
      if constexpr (steps_read_ahead > 0 && unrolled > 1) {
        if (i % steps_read_ahead == steps_read_ahead - 1) end_reading_ahead();
      }
    }
  }
};

}  // namespace regard
