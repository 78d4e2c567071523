// Copies of Q, K and V as operands of a product (product.h): converted and padded with zeros, without
// reading past the end of a row.
#pragma once

#include "kernels/cpu/attributes.h"
#include "kernels/cpu/product.h"
#include "kernels/cpu/transpose.h"

namespace regard {

/// Operand element k of a row of `n` numbers.
REGARD_INLINE u32 operand(const void* row, i64 n, i64 k) {
  if constexpr (vnni) {
    const u16* numbers = static_cast<const u16*>(row) + 2 * k;
    return 2 * k + 1 < n ? numbers[0] | (static_cast<u32>(numbers[1]) << 16) : numbers[0];
  } else {
    return bits_as<u32>(load_scalar<config::dtype>(row, k));
  }
}

/// The address of row `row` of a matrix whose rows are `stride` elements apart.
REGARD_INLINE const u8* row_address(const u8* matrix, i64 stride, i64 row) {
  return matrix + row * stride * bytes_of<config::dtype>;
}

/// Operand elements k and k + 1 of a row of `n` numbers.
REGARD_INLINE u64 operand_quad(const void* row, i64 n, i64 k) {
  const auto element = [&](i64 i) -> u64 { return i < filled_depth(n) ? operand(row, n, i) : 0; };
  return element(k) | element(k + 1) << 32;
}

/// pack_rows for quads: the quads of two rows in turn.
template <i64 n>
void pack_row_quads(float* to, const u8* from, i64 stride, i64 rows, i64 capacity) {
  constexpr i64 width = depth(n), whole = n / 2 / lanes * lanes;
  for (i64 row = 0; row < rows; row += 2, to += 2 * width) {
    const u8* const first = row_address(from, stride, row);
    const bool both = row + 1 < rows;
    const u8* const second = both ? row_address(from, stride, row + 1) : first;
    for (i64 k = 0; k < whole; k += lanes) {
      Floats a = load<Floats>(first + k * 4), b = both ? load<Floats>(second + k * 4) : Floats{};
      swap_squares<2>(a, b, NumbersBelow<lanes>::type());
      store(to + 2 * k, a);
      store(to + 2 * k + lanes, b);
    }
    for (i64 k = whole; k < width; k += 2) {
      store(to + 2 * k, operand_quad(first, n, k));
      store(to + 2 * k + 2, both ? operand_quad(second, n, k) : u64{0});
    }
  }
  __builtin_memset(to, 0, (capacity - round_up(rows, 2)) * width * 4);
}

/// to[row][depth(n)]: an A operand, rows in memory order. Rows past `rows` up to `capacity` become 0.
template <i64 n>
void pack_rows(float* to, const u8* from, i64 stride, i64 rows, i64 capacity) {
  if constexpr (quads) return pack_row_quads<n>(to, from, stride, rows, capacity);
  constexpr i64 width = depth(n);
  for (i64 row = 0; row < rows; ++row, to += width) {
    const u8* numbers = row_address(from, stride, row);
    if constexpr (vnni) {
      constexpr i64 filled = filled_depth(n);
      __builtin_memcpy(to, numbers, n / 2 * 4);
      if constexpr (n % 2 != 0) to[filled - 1] = bits_as<float>(operand(numbers, n, filled - 1));
      if constexpr (filled < width) __builtin_memset(to + filled, 0, (width - filled) * 4);
    } else {
      constexpr i64 whole = n / lanes * lanes;
      for (i64 k = 0; k < whole; k += lanes)
        store(to + k, load_floats<config::dtype>(numbers + k * bytes_of<config::dtype>));
      for (i64 k = whole; k < n; ++k) to[k] = load_scalar<config::dtype>(numbers, k);
    }
  }
  __builtin_memset(to, 0, (capacity - rows) * width * 4);
}

/// `lanes` operand elements of a row, from element k on.
REGARD_INLINE Floats load_operands(const u8* row, i64 k) {
  if constexpr (vnni)
    return load<Floats>(row + k * 4);
  else
    return load_floats<config::dtype>(row + k * bytes_of<config::dtype>);
}

/// pack_transposed_lanes for quads, which stay together: only 64-bit halves of vectors move.
template <i64 n, i64 columns>
REGARD_OPTIMIZE void pack_transposed_quads(float* to, const u8* from, i64 stride, i64 count) {
  constexpr i64 whole = n / 2 / lanes * lanes;
  for (i64 i = 0; i < lanes; i += 2, to += lanes) {
    const u8* const first = row_address(from, stride, smaller(i, count - 1));
    const u8* const second = row_address(from, stride, smaller(i + 1, count - 1));
    for (i64 k = 0; k < whole; k += lanes) {
      Floats a = i < count ? load<Floats>(first + k * 4) : Floats{};
      Floats b = i + 1 < count ? load<Floats>(second + k * 4) : Floats{};
      swap_squares<2>(a, b, NumbersBelow<lanes>::type());
      store(to + k * columns, a);
      store(to + (k + 2) * columns, b);
    }
    for (i64 k = whole; k < depth(n); k += 2) {
      store(to + k * columns, i < count ? operand_quad(first, n, k) : u64{0});
      store(to + k * columns + 2, i + 1 < count ? operand_quad(second, n, k) : u64{0});
    }
  }
}

/// `lanes` columns of to[depth(n)][columns], a B operand whose columns are the rows in memory; the n numbers
/// of each row are along k. Columns from number `count` on become 0.
template <i64 n, i64 columns>
REGARD_OPTIMIZE void pack_transposed_lanes(float* to, const u8* from, i64 stride, i64 count) {
  if constexpr (quads) return pack_transposed_quads<n, columns>(to, from, stride, count);
  constexpr i64 height = depth(n);
  constexpr i64 whole = (vnni ? n / 2 : n) / lanes * lanes;
  for (i64 k = 0; k < whole; k += lanes) {
    Floats square[lanes];
    if (count == lanes) {
      const u8* row = from;
      REGARD_UNROLL
      for (i64 i = 0; i < lanes; ++i, row = row_address(row, stride, 1)) {
        asm("" : "+r"(row));  // else the compiler spends its time keeping every row's address
        square[i] = load_operands(row, k);
      }
    } else {
      for (i64 i = 0; i < lanes; ++i)
        square[i] = i < count ? load_operands(row_address(from, stride, i), k) : Floats{};
    }
    transpose(square);
    REGARD_UNROLL
    for (i64 i = 0; i < lanes; ++i) store(to + (k + i) * columns, square[i]);
  }
  for (i64 k = whole; k < height; ++k)
    for (i64 i = 0; i < lanes; ++i)
      to[k * columns + i] = i < count && k < filled_depth(n)
                                ? bits_as<float>(operand(row_address(from, stride, i), n, k))
                                : 0.0f;
}

/// All columns of pack_transposed_lanes, from `rows` rows.
template <i64 n, i64 columns>
void pack_transposed(float* to, const u8* from, i64 stride, i64 rows) {
  for (i64 column = 0; column < columns; column += lanes)
    pack_transposed_lanes<n, columns>(to + place(column), row_address(from, stride, column), stride,
                                      larger<i64>(0, smaller<i64>(lanes, rows - column)));
}

/// pack_transposed panel by panel, `width` columns each.
template <i64 n, i64 columns, i64 width>
void pack_transposed_panels(float* to, const u8* from, i64 stride, i64 rows) {
  for (i64 column = 0; column < columns; column += width)
    pack_transposed<n, width>(to + column * depth(n), row_address(from, stride, column), stride,
                              larger<i64>(0, smaller(width, rows - column)));
}

/// pack_columns for quads.
template <i64 n, i64 width>
void pack_column_quads(float* to, const u8* from, i64 stride, i64 rows, i64 capacity) {
  constexpr i64 at_once = 2 * lanes, whole = n / at_once * at_once;
  for (i64 row = 0; row < capacity; row += 4, to += 2 * width) {
    if (row >= rows) {
      __builtin_memset(to, 0, 2 * width * 4);
      continue;
    }
    const u8* numbers[4];
    Numbers16 exists[4];
    for (i64 i = 0; i < 4; ++i) {
      numbers[i] = row_address(from, stride, smaller(row + i, rows - 1));
      exists[i] = row + i < rows ? ~Numbers16{} : Numbers16{};
    }
    for (i64 column = 0; column < whole; column += at_once) {
      Numbers16 r[4];
      REGARD_UNROLL
      for (int i = 0; i < 4; ++i) r[i] = load<Numbers16>(numbers[i] + column * 2) & exists[i];
      const auto store_half = [&]<bool upper>(float* half) {
        const Floats low = interleaved<upper>(r[0], r[1], NumbersBelow<at_once>::type());
        const Floats high = interleaved<upper>(r[2], r[3], NumbersBelow<at_once>::type());
        store(half, lanes_in_turn<false>(low, high, NumbersBelow<lanes>::type()));
        store(half + lanes, lanes_in_turn<true>(low, high, NumbersBelow<lanes>::type()));
      };
      store_half.template operator()<false>(to + 2 * column);
      store_half.template operator()<true>(to + 2 * column + at_once);
    }
    for (i64 column = whole; column < width; ++column)
      for (i64 i = 0; i < 4; ++i) {
        const u16 number = column < n && row + i < rows ? load<u16>(numbers[i] + column * 2) : u16{0};
        store(reinterpret_cast<u16*>(to + 2 * column) + i, number);
      }
  }
}

/// to[depth(capacity)][width]: a B operand with the rows in memory along k and their n numbers as columns.
/// Rows past `rows` up to `capacity` and columns past n become 0.
template <i64 n, i64 width>
void pack_columns(float* to, const u8* from, i64 stride, i64 rows, i64 capacity) {
  if constexpr (quads) return pack_column_quads<n, width>(to, from, stride, rows, capacity);
  constexpr i64 whole = n / lanes * lanes;
  constexpr i64 step = vnni ? 2 : 1;
  for (i64 row = 0; row < capacity; row += step, to += width) {
    if (row >= rows) {
      __builtin_memset(to, 0, width * 4);
      continue;
    }
    const u8* first = row_address(from, stride, row);
    if constexpr (vnni) {
      const u16* low = reinterpret_cast<const u16*>(first);
      const u16* high = reinterpret_cast<const u16*>(row_address(from, stride, row + 1));
      const bool both = row + 1 < rows;
      if (!both) high = low;
      const Words keep = broadcast(both ? 0xffffffffu : 0xffffu);
      for (i64 column = 0; column < whole; column += lanes) {
        const Words a = load_halves(low + column);
        const Words b = load_halves(high + column);
        store(to + column, (a | (b << 16)) & keep);
      }
      for (i64 column = whole; column < n; ++column)
        to[column] = bits_as<float>(low[column] | (both ? static_cast<u32>(high[column]) << 16 : 0));
    } else {
      for (i64 column = 0; column < whole; column += lanes)
        store(to + column, load_floats<config::dtype>(first + column * bytes_of<config::dtype>));
      for (i64 column = whole; column < n; ++column) to[column] = load_scalar<config::dtype>(first, column);
    }
    for (i64 column = n; column < width; ++column) to[column] = 0;
  }
}

}  // namespace regard
