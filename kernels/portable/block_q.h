// Q of a block, which is kept where the layout says.
#pragma once

#include "kernels/portable/pack_gqa.h"
#include "kernels/portable/tile.h"

namespace regard {

using portable::QPlace;

/// Rows of Q: a stride apart, or packed.
template <bool packed>
struct SourceOfQ : RowSource {
  REGARD_DEVICE SourceOfQ(const u8* first, const Rows& tensor, i64 pack_gqa)
      : RowSource(first, pack_gqa_pitch(pack_gqa, tensor)) {}
};
template <>
struct SourceOfQ<true> {
  const u8* rows;  // of the first head and query
  RowSteps<true> steps;
  bool aligned;

  REGARD_DEVICE SourceOfQ(const u8* first, const Rows& tensor, i64 pack_gqa)
      : rows(first), steps{PackedRows(pack_gqa), 0, tensor.head, tensor.row} {
    const u64 strides = static_cast<u64>(steps.strides() * bytes_of<config::dtype>);
    aligned = operand == config::dtype && (reinterpret_cast<u64>(first) | strides) % 16 == 0;
  }
  REGARD_DEVICE const u8* at(i32 row, i32 column) const {
    return rows + (steps.at(row) + column) * bytes_of<config::dtype>;
  }
};

/// load_tile of packed rows, which are not a stride apart: small rather than fast.
template <i32 rows, i32 columns, i32 row_bytes>
REGARD_DEVICE void load_tile(u32 to, const SourceOfQ<true>& source, const TileBounds& bounds) {
  constexpr i32 per_vector = 16 / operand_bytes, vectors = columns / per_vector;
#pragma unroll 4
  for (i32 i = thread(); i < rows * vectors; i += threads) {
    const i32 row = i / vectors, column = i % vectors * per_vector;
    const u8* const from = source.at(bounds.first_row + row, bounds.first_column + column);
    const u32 row_to = to + shared_offset<row_bytes>(row, column * operand_bytes);
    const i32 count = count_there<per_vector>(bounds.end_row - bounds.first_row - row,
                                              bounds.end_column - bounds.first_column - column);
    if (source.aligned) {
      copy_vector(row_to, from, count * operand_bytes);
    } else {
      u32 words[4];
      convert_vector(words, from, count);
      store_vector(row_to, words);
    }
  }
}

template <QPlace place, class InRegisters = RegisterLeft<row_tiles, block_d>>
struct BlockQ;

/// In shared memory from `address` on.
template <class InRegisters>
struct BlockQ<QPlace::shared, InRegisters> {
  template <class Source>
  REGARD_DEVICE void load(u32 address, const Source& source, const TileBounds& rows) {
    load_tile<block_q, layout.d, layout.row_of_q>(address, source, rows);
  }
  template <class Source>
  REGARD_DEVICE void load_part(u32, const Source&, const TileBounds&, i32) const {}

  /// The wave's rows, as they are multiplied with a part of K.
  REGARD_DEVICE WaveQ of_wave(u32 address, i32 part) const {
    const u32 rows = address + row_of_wave() * layout.row_of_q;
    return WaveQ(rows + part * block_d * operand_bytes, 0);
  }
};

/// In shared memory, one part of its columns at a time: all parts are loaded again for each tile of keys.
template <class InRegisters>
struct BlockQ<QPlace::shared_part, InRegisters> {
  template <class Source>
  REGARD_DEVICE void load(u32, const Source&, const TileBounds&) {}
  template <class Source>
  REGARD_DEVICE void load_part(u32 address, const Source& source, const TileBounds& rows, i32 part) const {
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

  template <class Source>
  REGARD_DEVICE void load(u32, const Source& source, const TileBounds& rows) {
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
  template <class Source>
  REGARD_DEVICE void load_part(u32, const Source&, const TileBounds&, i32) const {}

  REGARD_DEVICE const InRegisters& of_wave(u32, i32) const { return left; }
};

}  // namespace regard
