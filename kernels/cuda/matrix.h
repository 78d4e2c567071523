// Matrix products of a wave: 16 x 8 fp32 sums += 16 x 16 by 16 x 8 16-bit numbers. Operands are loaded from
// shared memory as 8 x 8 matrices (ldmatrix).
#pragma once

#include "kernels/cuda/fragment.h"
#include "kernels/cuda/ldmatrix.h"

namespace regard {

constexpr i32 depth = 16;  // of one product

/// The left operand: the 8 x 8 matrices that start at (row 0, column 0), (8, 0), (0, 8) and (8, 8).
using Left = u32[4];

/// The row of a 16 x 16 operand whose address a lane passes to ldmatrix, and which of the row's two vectors:
/// matrices in the order of Left, or with the second and third swapped, which gives the two right operands
/// of 8 rows each.
struct LdmatrixRow {
  i32 row, vector;

  REGARD_DEVICE static LdmatrixRow of_left() { return {lane() % 16, lane() / 16}; }
  REGARD_DEVICE static LdmatrixRow of_rights() { return {lane() / 16 * 8 + lane() % 8, lane() / 8 % 2}; }
};

#define REGARD_MULTIPLY(shape, type, a, ...)                                                       \
  asm volatile("mma.sync.aligned." shape ".row.col.f32." type "." type ".f32 {%0, %1, %2, %3}, " a \
               ", {%0, %1, %2, %3};"                                                               \
               : "+f"(c.x[0][0]), "+f"(c.x[0][1]), "+f"(c.x[1][0]), "+f"(c.x[1][1])                \
               : __VA_ARGS__)

/// c += a b, where b0 and b1 are the upper and the lower half of b, transposed.
template <DType operand>
REGARD_DEVICE void multiply_add(Fragment& c, const Left& a, u32 b0, u32 b1) {
  if constexpr (operand == DType::bf16) {
    REGARD_MULTIPLY("m16n8k16", "bf16", "{%4, %5, %6, %7}, {%8, %9}", "r"(a[0]), "r"(a[1]), "r"(a[2]),
                    "r"(a[3]), "r"(b0), "r"(b1));
  } else if constexpr (target::matrix_k16) {
    REGARD_MULTIPLY("m16n8k16", "f16", "{%4, %5, %6, %7}, {%8, %9}", "r"(a[0]), "r"(a[1]), "r"(a[2]),
                    "r"(a[3]), "r"(b0), "r"(b1));
  } else {  // half as deep
    REGARD_MULTIPLY("m16n8k8", "f16", "{%4, %5}, {%6}", "r"(a[0]), "r"(a[1]), "r"(b0));
    REGARD_MULTIPLY("m16n8k8", "f16", "{%4, %5}, {%6}", "r"(a[2]), "r"(a[3]), "r"(b1));
  }
}
#undef REGARD_MULTIPLY

}  // namespace regard
