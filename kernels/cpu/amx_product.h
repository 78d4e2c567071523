// Products by the tile unit, of operands as product.h has them: rows of A and columns of B come in multiples
// of 16, the depth in multiples of 16 elements.
#pragma once

#include "kernels/cpu/amx.h"

namespace regard {

/// C[rows][columns] = A[rows][steps] B[steps][columns], or += where `add` says so. `_row`: how far rows lie
/// apart.
struct TileProduct {
  const float* a;
  i64 a_row;
  const float* b;
  i64 b_row;
  float* c;
  i64 c_row;
  i64 steps;
  bool add;
};

/// One block of C, rows x columns tiles of it from (row, column) on. Two by two tiles of C take as many loads
/// of A and B as the unit can hide behind the products.
template <int rows, int columns>
REGARD_INLINE void multiply_block(const TileProduct& p, i64 row, i64 column) {
  static_assert(rows <= 2 && columns <= 2, "four sums, two tiles of A, two of B");
  float* const c = p.c + row * p.c_row + column;
  const auto sum = [&](auto use) {  // use(register, its place)
    use.template operator()<0>(c);
    if constexpr (columns > 1) use.template operator()<1>(c + 16);
    if constexpr (rows > 1) use.template operator()<2>(c + 16 * p.c_row);
    if constexpr (rows > 1 && columns > 1) use.template operator()<3>(c + 16 * p.c_row + 16);
  };
  if (p.add)
    sum([&]<int t>(float* place) { Tiles::load<t>(place, p.c_row); });
  else
    sum([&]<int t>(float*) { Tiles::clear<t>(); });

  const float* a = p.a + row * p.a_row;
  const float* b = p.b + column;
  for (i64 k = 0; k < p.steps; k += 16, a += 16, b += 16 * p.b_row) {
    Tiles::load<4>(a, p.a_row);
    Tiles::load<6>(b, p.b_row);
    Tiles::multiply_add<0, 4, 6>();
    if constexpr (columns > 1) {
      Tiles::load<7>(b + 16, p.b_row);
      Tiles::multiply_add<1, 4, 7>();
    }
    if constexpr (rows > 1) {
      Tiles::load<5>(a + 16 * p.a_row, p.a_row);
      Tiles::multiply_add<2, 5, 6>();
      if constexpr (columns > 1) Tiles::multiply_add<3, 5, 7>();
    }
  }
  sum([&]<int t>(float* place) { Tiles::store<t>(place, p.c_row); });
}

/// The whole product.
inline void multiply(const TileProduct& p, i64 rows, i64 columns) {
  for (i64 column = 0; column < columns; column += 32) {
    const bool wide = column + 32 <= columns;
    for (i64 row = 0; row < rows; row += 32) {
      if (row + 32 <= rows)
        wide ? multiply_block<2, 2>(p, row, column) : multiply_block<2, 1>(p, row, column);
      else
        wide ? multiply_block<1, 2>(p, row, column) : multiply_block<1, 1>(p, row, column);
    }
  }
}

}  // namespace regard
