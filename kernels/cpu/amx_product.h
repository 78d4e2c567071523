// Products by the tile unit. Operands are laid out as in product.h; rows of A and columns of B come in
// multiples of 16, the depth in multiples of 16 elements.
#pragma once

#include "kernels/cpu/amx.h"
#include "kernels/cpu/attributes.h"
#include "kernels/cpu/transpose.h"

namespace regard {

static_assert(!amx || lanes == 16);

/// Memory layout of a matrix of 16 x 16 tiles: the distances between the rows of a tile, between a tile and
/// the one to its right, and between a tile and the one below it.
struct TileStrides {
  i64 row, right, below;
  constexpr i64 at(i64 tile_row, i64 column) const { return tile_row / 16 * below + column / 16 * right; }
};
/// Row by row, consecutive rows `apart` elements apart.
constexpr TileStrides rows_apart(i64 apart) {
  return {apart, 16, 16 * apart};
}
/// Contiguous tiles, which load in three quarters of the time (docs/cpu-kernels.md): consecutive tiles of 16
/// rows of `columns` elements, ...
constexpr TileStrides tiles_by_rows(i64 columns) {
  return {16, 256, 16 * columns};
}
/// ... or those of 16 columns of `rows` elements: panels of 16 columns.
constexpr TileStrides tiles_by_columns(i64 rows) {
  return {16, 16 * rows, 256};
}

/// Rows [first, first + lanes) of a matrix with `columns` columns, from its transpose in contiguous tiles.
template <i64 columns>
REGARD_OPTIMIZE void transpose_tiles(float* to, const float* from, const TileStrides& tiles, i64 first) {
  for (i64 column = 0; column < columns; column += lanes) {
    const float* const tile = from + tiles.at(column, first);
    Floats square[lanes];
    REGARD_UNROLL
    for (int i = 0; i < lanes; ++i) square[i] = load<Floats>(tile + i * lanes);
    transpose(square);
    REGARD_UNROLL
    for (int i = 0; i < lanes; ++i) store(to + i * columns + column, square[i]);
  }
}

/// C[rows][columns] = A[rows][steps] B[steps][columns], or += if `add` is set.
struct AmxProduct {
  const float* a;
  TileStrides a_tiles;
  const float* b;
  TileStrides b_tiles;
  float* c;
  TileStrides c_tiles;
  i64 steps;
  bool add;
  i64 a_low = 0, b_low = 0;  // of numbers in two pieces: the distance from the high pieces to the low ones
};

/// The products for one block of sums, held in registers 0 to 3 row by row, two to a row.
template <int rows, int columns>
REGARD_INLINE void multiply_tiles(const AmxProduct& p, const float* a, const float* b) {
  const auto load_b = [&]<int t>(i64 tile) { AmxTiles::load<t>(b + tile * p.b_tiles.right, p.b_tiles.row); };
  for (i64 k = 0; k < p.steps; k += 16, a += p.a_tiles.right, b += p.b_tiles.below) {
    AmxTiles::load<4>(a, p.a_tiles.row);
    if constexpr (rows > 1) AmxTiles::load<5>(a + p.a_tiles.below, p.a_tiles.row);
    load_b.template operator()<6>(0);
    AmxTiles::multiply_add<0, 4, 6>();
    if constexpr (rows > 1) AmxTiles::multiply_add<2, 5, 6>();
    if constexpr (columns > 1) {
      load_b.template operator()<7>(1);
      AmxTiles::multiply_add<1, 4, 7>();
      if constexpr (rows > 1) AmxTiles::multiply_add<3, 5, 7>();
    }
    if constexpr (columns > 2) {
      load_b.template operator()<6>(2);
      AmxTiles::multiply_add<2, 4, 6>();
    }
    if constexpr (columns > 3) {
      load_b.template operator()<7>(3);
      AmxTiles::multiply_add<3, 4, 7>();
    }
  }
}

/// multiply_tiles for numbers in two pieces. With two rows and two columns, ten loads serve sixteen
/// products; without low times low, eight loads serve twelve.
template <int rows, int columns, bool exact>
REGARD_INLINE void multiply_pieces(const AmxProduct& p, const float* a, const float* b) {
  static_assert(rows <= 2 && columns <= 2);
  const auto load_a = [&](const float* tile) {
    AmxTiles::load<4>(tile, p.a_tiles.row);
    if constexpr (rows > 1) AmxTiles::load<5>(tile + p.a_tiles.below, p.a_tiles.row);
  };
  const auto load_b = [&](const float* tile) {
    AmxTiles::load<6>(tile, p.b_tiles.row);
    if constexpr (columns > 1) AmxTiles::load<7>(tile + p.b_tiles.right, p.b_tiles.row);
  };
  const auto add_products = [] {
    AmxTiles::multiply_add<0, 4, 6>();
    if constexpr (columns > 1) AmxTiles::multiply_add<1, 4, 7>();
    if constexpr (rows > 1) AmxTiles::multiply_add<2, 5, 6>();
    if constexpr (rows > 1 && columns > 1) AmxTiles::multiply_add<3, 5, 7>();
  };
  for (i64 k = 0; k < p.steps; k += 16, a += p.a_tiles.right, b += p.b_tiles.below) {
    load_a(a + p.a_low);
    if constexpr (exact) {
      load_b(b + p.b_low);
      add_products();
    }
    load_b(b);
    add_products();
    load_a(a);
    add_products();
    load_b(b + p.b_low);
    add_products();
  }
}

/// One block of C, rows x columns tiles starting at (row, column). With four sums, the unit hides the loads
/// of A and B under the products. For numbers in two pieces, an `exact` product includes low times low.
template <int rows, int columns, bool exact = false>
REGARD_INLINE void multiply_block(const AmxProduct& p, i64 row, i64 column) {
  static_assert((rows == 1 && columns <= 4) || (rows == 2 && columns <= 2), "four sums, A and B in the rest");
  float* const c = p.c + p.c_tiles.at(row, column);
  const i64 right = p.c_tiles.right, below = p.c_tiles.below;
  const auto sums = [&](auto use) {  // use(register, its address)
    use.template operator()<0>(c);
    if constexpr (columns > 1) use.template operator()<1>(c + right);
    if constexpr (columns > 2) use.template operator()<2>(c + 2 * right);
    if constexpr (columns > 3) use.template operator()<3>(c + 3 * right);
    if constexpr (rows > 1) use.template operator()<2>(c + below);
    if constexpr (rows > 1 && columns > 1) use.template operator()<3>(c + below + right);
  };
  if (p.add)
    sums([&]<int t>(float* address) { AmxTiles::load<t>(address, p.c_tiles.row); });
  else
    sums([&]<int t>(float*) { AmxTiles::clear<t>(); });

  const float* a = p.a + p.a_tiles.at(row, 0);
  const float* b = p.b + p.b_tiles.at(0, column);
  if constexpr (pieces == 2)
    multiply_pieces<rows, columns, exact>(p, a, b);
  else
    multiply_tiles<rows, columns>(p, a, b);
  sums([&]<int t>(float* address) { AmxTiles::store<t>(address, p.c_tiles.row); });
}

/// Rows [row, row + 16 * tiles) of all columns.
template <int tiles, bool exact = false>
REGARD_INLINE void multiply_rows(const AmxProduct& p, i64 row, i64 columns) {
  i64 column = 0;
  if constexpr (tiles == 1 && pieces == 1)
    for (; column + 64 <= columns; column += 64) multiply_block<1, 4>(p, row, column);
  for (; column + 32 <= columns; column += 32) multiply_block<tiles, 2, exact>(p, row, column);
  if (column < columns) multiply_block<tiles, 1, exact>(p, row, column);
}

/// The whole product. A is read once, B once per 32 rows. Not inlined, as there are many products.
template <bool exact = false>
REGARD_NOINLINE void multiply(const AmxProduct& p, i64 rows, i64 columns) {
  i64 row = 0;
  for (; row + 32 <= rows; row += 32) multiply_rows<2, exact>(p, row, columns);
  if (row < rows) multiply_rows<1, exact>(p, row, columns);
}

/// `multiply` in the other order, for a B that stays in the L1 cache and an A that does not: B is read once,
/// A once per 32 columns.
template <i64 rows>
REGARD_NOINLINE void multiply_by_columns(const AmxProduct& p, i64 columns) {
  constexpr i64 whole = rows / 32 * 32;
  for (i64 column = 0; column < columns; column += 32)
    for (i64 row = 0; row < whole; row += 32) multiply_block<2, 2>(p, row, column);
  if constexpr (whole < rows) multiply_rows<1>(p, whole, columns);
}

}  // namespace regard
