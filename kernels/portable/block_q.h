// Q of a block, which is kept where the layout says.
#pragma once

#include "kernels/portable/tile.h"

namespace regard {

using portable::QPlace;

template <QPlace place, class InRegisters = RegisterLeft<row_tiles, block_d>>
struct BlockQ;

/// In shared memory from `address` on.
template <class InRegisters>
struct BlockQ<QPlace::shared, InRegisters> {
  REGARD_DEVICE void load(u32 address, const RowSource& source, const TileBounds& rows) {
    load_tile<block_q, layout.d, layout.row_of_q>(address, source, rows);
  }
  REGARD_DEVICE void load_part(u32, const RowSource&, const TileBounds&, i32) const {}

  /// The wave's rows, as they are multiplied with a part of K.
  REGARD_DEVICE WaveQ of_wave(u32 address, i32 part) const {
    const u32 rows = address + row_of_wave() * layout.row_of_q;
    return WaveQ(rows + part * block_d * operand_bytes, 0);
  }
};

/// In shared memory, one part of its columns at a time: all parts are loaded again for each tile of keys.
template <class InRegisters>
struct BlockQ<QPlace::shared_part, InRegisters> {
  REGARD_DEVICE void load(u32, const RowSource&, const TileBounds&) {}
  REGARD_DEVICE void load_part(u32 address, const RowSource& source, const TileBounds& rows, i32 part) const {
    load_tile<block_q, block_d, layout.row_of_q>(
        address, source, {rows.first_row, rows.end_row, part * block_d, rows.end_column});
  }

  REGARD_DEVICE WaveQ of_wave(u32 address, i32) const {
    return WaveQ(address + row_of_wave() * layout.row_of_q, 0);
  }
};

/// In the registers of the waves.
template <class InRegisters>
struct BlockQ<QPlace::registers, InRegisters> {
  InRegisters left;

  REGARD_DEVICE void load(u32, const RowSource& source, const TileBounds& rows) {
    constexpr i32 per_vector = 16 / operand_bytes;
    const i32 first = rows.first_row + row_of_wave();
    const auto count = [&](i32 row, i32 column) {
      return count_there<per_vector>(rows.end_row - first - row, rows.end_column - column);
    };
    if (whole_vectors && source.aligned)
      left.read([&](u32(&words)[4], i32 row, i32 column) {
        load_vector(words, source.at(first + row, column), count(row, column) * operand_bytes);
      });
    else
      left.read_in_turn([&](u32(&words)[4], i32 row, i32 column) {
        convert_vector(words, source.at(first + row, column), count(row, column));
      });
  }
  REGARD_DEVICE void load_part(u32, const RowSource&, const TileBounds&, i32) const {}

  REGARD_DEVICE const InRegisters& of_wave(u32, i32) const { return left; }
};

}  // namespace regard
