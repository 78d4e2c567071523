// Products by the tile unit, of operands as product.h has them: rows of A and columns of B come in multiples
// of 16, the depth in multiples of 16 elements.
#pragma once

#include "kernels/cpu/amx.h"

namespace regard {

/// An A operand, made of tiles of 16 rows x 16 elements: how far apart the rows of a tile lie, its next tile
/// along the depth, and the next 16 rows.
struct TileRowsOfA {
  const float* data;
  i64 row, step, block;
};

/// Rows that lie `row` elements apart.
constexpr TileRowsOfA rows_of(const float* data, i64 row) {
  return {data, row, 16, 16 * row};
}
/// Whole tiles one behind the other, `depth` elements of 16 rows and then the next 16.
constexpr TileRowsOfA tiles_of(const float* data, i64 depth) {
  return {data, 16, 256, 16 * depth};
}

/// C[rows][columns] = A[rows][steps] B[steps][columns], or += where `add` says so. `_row`: how far rows lie
/// apart.
struct TileProduct {
  TileRowsOfA a;
  const float* b;
  i64 b_row;
  float* c;
  i64 c_row;
  i64 steps;
  bool add;
};

/// One block of C, rows x columns tiles of it from (row, column) on. With four sums, the unit hides the loads
/// of A and B behind the products.
template <int rows, int columns>
REGARD_INLINE void multiply_block(const TileProduct& p, i64 row, i64 column) {
  static_assert((rows == 1 && columns <= 4) || (rows == 2 && columns <= 2), "four sums, A and B in the rest");
  float* const c = p.c + row * p.c_row + column;
  const auto sums = [&](auto use) {  // use(register, its place)
    use.template operator()<0>(c);
    if constexpr (columns > 1) use.template operator()<1>(c + 16);
    if constexpr (columns > 2) use.template operator()<2>(c + 32);
    if constexpr (columns > 3) use.template operator()<3>(c + 48);
    if constexpr (rows > 1) use.template operator()<2>(c + 16 * p.c_row);
    if constexpr (rows > 1 && columns > 1) use.template operator()<3>(c + 16 * p.c_row + 16);
  };
  if (p.add)
    sums([&]<int t>(float* place) { Tiles::load<t>(place, p.c_row); });
  else
    sums([&]<int t>(float*) { Tiles::clear<t>(); });

  const float* a = p.a.data + row / 16 * p.a.block;
  const float* b = p.b + column;
  for (i64 k = 0; k < p.steps; k += 16, a += p.a.step, b += 16 * p.b_row) {
    Tiles::load<4>(a, p.a.row);
    if constexpr (rows > 1) Tiles::load<5>(a + p.a.block, p.a.row);
    Tiles::load<6>(b, p.b_row);
    Tiles::multiply_add<0, 4, 6>();
    if constexpr (rows > 1) Tiles::multiply_add<2, 5, 6>();
    if constexpr (columns > 1) {
      Tiles::load<7>(b + 16, p.b_row);
      Tiles::multiply_add<1, 4, 7>();
      if constexpr (rows > 1) Tiles::multiply_add<3, 5, 7>();
    }
    if constexpr (columns > 2) {
      Tiles::load<6>(b + 32, p.b_row);
      Tiles::multiply_add<2, 4, 6>();
    }
    if constexpr (columns > 3) {
      Tiles::load<7>(b + 48, p.b_row);
      Tiles::multiply_add<3, 4, 7>();
    }
  }
  sums([&]<int t>(float* place) { Tiles::store<t>(place, p.c_row); });
}

/// Rows [row, row + 32) or what is left of them, over all columns.
template <int rows>
REGARD_INLINE void multiply_rows(const TileProduct& p, i64 row, i64 columns) {
  i64 column = 0;
  for (; column + 32 <= columns; column += 32) multiply_block<rows, 2>(p, row, column);
  if (column < columns) multiply_block<rows, 1>(p, row, column);
}

/// The whole product. A is read once, B once for every 32 rows.
inline void multiply(const TileProduct& p, i64 rows, i64 columns) {
  i64 row = 0;
  for (; row + 32 <= rows; row += 32) multiply_rows<2>(p, row, columns);
  if (row < rows) multiply_rows<1>(p, row, columns);
}

/// The same for 64 columns and a B that stays in the first cache: four tiles of it for each one of A.
inline void multiply_64_columns(const TileProduct& p, i64 rows) {
  for (i64 row = 0; row < rows; row += 16) multiply_block<1, 4>(p, row, 0);
}

}  // namespace regard
