// Sums += A B in fp32 by multiply-adds, with the sums where matrix instructions would leave them.
#pragma once

#include "kernels/portable/product.h"

namespace regard {

template <i32 together>
struct Product<false, together> {
  /// A of a wave whose first row is `row`: four numbers of each of its rows at a time.
  template <class Operand, i32>
  class A {
   public:
    static constexpr i32 numbers = 4, interleave = 1;

    REGARD_DEVICE A(u32 operand, i32 row) : first_(operand), row_(row + Fragment::row()) {}

    /// The numbers from k on.
    struct Step {
      u32 first;
      i32 row, k;

      REGARD_DEVICE void load(float (&x)[numbers], i32 m, i32 half) const {
        const i32 at = row + m * Fragment::rows + half * Fragment::row_step;
        if constexpr (Operand::transposed) {
#pragma unroll
          for (i32 i = 0; i < numbers; ++i) load_shared(x[i], first + offset<Operand>(at, k + i));
        } else {
          load_shared(x, first + offset<Operand>(at, k));
        }
      }
    };
    /// function(k, step) for each of them.
    template <i32 length, class Function>
    REGARD_DEVICE void each_step(Function function) const {
      static_assert(length % numbers == 0);
#pragma unroll 1
      for (i32 k = 0; k < length; k += numbers) function(k, Step{first_, row_, k});
    }

   private:
    u32 first_;
    i32 row_;
  };

  /// B of the `part`-th of the `across` waves that share rows.
  template <class Operand, i32 tiles, i32 across = 1>
  class B {
   public:
    static constexpr i32 tiles_at_once = tiles % 2 == 0 ? 2 : 1, interleave = 1;
    using Columns = DealtColumns<B, across>;

    REGARD_DEVICE B(u32 operand, i32 part) : first_(operand), column_(Columns::of_thread(part)) {}

    /// The numbers from k on of each of this thread's columns of the n-th column tile.
    template <i32 numbers>
    REGARD_DEVICE void load(float (&y)[Fragment::width][numbers], i32 n, i32 k) const {
      if constexpr (Operand::transposed) {
#pragma unroll
        for (i32 i = 0; i < numbers; ++i)
#pragma unroll
          for (i32 j = 0; j < Fragment::width; j += Fragment::neighbours) {
            float neighbours[Fragment::neighbours];
            load_shared(neighbours, first_ + offset<Operand>(column_ + Columns::offset(n, j), k + i));
#pragma unroll
            for (i32 l = 0; l < Fragment::neighbours; ++l) y[j + l][i] = neighbours[l];
          }
      } else {
#pragma unroll
        for (i32 j = 0; j < Fragment::width; ++j)
          load_shared(y[j], first_ + offset<Operand>(column_ + Columns::offset(n, j), k));
      }
    }

   private:
    u32 first_;
    i32 column_;
  };

  /// c += A B over `length` numbers, in the order in which A provides them.
  template <i32 length, i32 tiles_m, i32 tiles_n, class OperandA, class OperandB>
  REGARD_DEVICE static void add(Fragment (&c)[tiles_m][tiles_n], const OperandA& a, const OperandB& b) {
    a.template each_step<length>([&](i32 k, const typename OperandA::Step& step) {
      float x[tiles_m][Fragment::halves][OperandA::numbers];
#pragma unroll
      for (i32 m = 0; m < tiles_m; ++m)
#pragma unroll
        for (i32 half = 0; half < Fragment::halves; ++half) step.load(x[m][half], m, half);
#pragma unroll
      for (i32 n = 0; n < tiles_n; ++n) {
        float y[Fragment::width][OperandA::numbers];
        b.load(y, n, k);
#pragma unroll
        for (i32 j = 0; j < Fragment::width; ++j)
#pragma unroll
          for (i32 m = 0; m < tiles_m; ++m)
#pragma unroll
            for (i32 half = 0; half < Fragment::halves; ++half) {
              float& sum = c[m][n].x[half][j];
#pragma unroll
              for (i32 i = OperandA::numbers - 1; i >= 0; --i) sum = fmaf(x[m][half][i], y[j][i], sum);
            }
      }
    });
  }

 private:
  /// The position of the k-th number of the summed dimension, of a row or column of the sums.
  template <class Operand>
  REGARD_DEVICE static u32 offset(i32 of_sums, i32 k) {
    const i32 row = Operand::transposed ? k : of_sums, column = Operand::transposed ? of_sums : k;
    return static_cast<u32>(row * Operand::row_bytes + column * operand_bytes);
  }
};

}  // namespace regard
