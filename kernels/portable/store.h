// The end of a block: rows of O and LSE, or, of one part of the keys, of the workspace.
//
// Sums go through shared memory, where the last tiles were. A loop takes them from there to wherever rows
// lie; out of registers each pair of numbers would need instructions of its own for that.
#pragma once

#include "kernels/portable/scores.h"
#include "kernels/portable/softmax.h"
#include "kernels/portable/work.h"

namespace regard {

/// What is free of shared memory: Q is read again where more columns follow.
constexpr i64 first_free_byte = layout.dv > block_dv ? layout.q : 0;
constexpr i64 free_bytes = layout.q + stages * (layout.keys + layout.values) - first_free_byte;

/// A row on its way out, with as many columns of O as there is room for.
struct alignas(16) StagedRow {
  static constexpr i32 end_bytes = 32;
  static constexpr i32 columns =
      smaller<i32>(block_dv, (free_bytes / block_q - end_bytes) / 4 / Fragment::columns * Fragment::columns);
  static_assert(columns > 0);

  float o[columns];
  float reference, sum, factor;  // of the softmax, and of O then
  float unused[5];               // rows of neighbouring lanes lie in different banks
};
static_assert(sizeof(StagedRow) == StagedRow::columns * 4 + StagedRow::end_bytes);

/// Where the rows of a block go, and what becomes of them there besides the softmax. Found once, at the
/// start.
struct Destination {
  i64 o, lse;  // the first row, in bytes and in elements
  float factor, sink;
  i32 rows;

  Destination() = default;
  REGARD_DEVICE Destination(const Head& head, const Work& work) {
    const Arguments& a = head.arguments;
    if (a.splits > 1) {
      lse = head.row_of_part(work.first_row, work.split);
      o = lse * key::dv * 4;
    } else {
      lse = head.lse(work.first_row) - static_cast<float*>(a.lse.data);
      o = head.o(work.first_row) - static_cast<u8*>(a.o.data);
    }
    factor = a.dropout_scale * descale(head, a.descale_v);
    sink = head.sink();
    rows = static_cast<i32>(smaller<i64>(head.sequence.sq - work.first_row, block_q));
  }
};

/// What the softmax left; gives LSE and the factor of O. By the wave that has the rows, `count` of them from
/// `first_row` of the block on.
REGARD_DEVICE void end_rows(const Arguments& a, const Destination& to, StagedRow* staged, i32 first_row,
                            i32 count, bool writes_lse, float natural) {
  const bool is_part = a.splits > 1;
  float* const lse = is_part ? a.partial_lse : static_cast<float*>(a.lse.data);
  const i64 pitch = is_part ? 1 : a.lse.row, first = to.lse + first_row * pitch;
  writes_lse = writes_lse && lse;
  const float factor = to.factor, sink = to.sink;
#pragma unroll 1
  for (i32 i = lane(); i < count; i += wave) {
    StagedRow& row = staged[i];
    const SoftmaxEnd end = end_softmax(row.reference, row.sum, natural, sink);
    row.factor = end.inverse * factor;
    if (writes_lse) lse[first + i * pitch] = end.lse;
  }
}

/// Columns of O.
struct ColumnRange {
  i32 first, end;
};

/// As many columns of rows of O as are staged, `width` neighbours at a time; `to` has column 0 of the first
/// row.
template <DType dtype, i32 width>
REGARD_DEVICE void store_rows(u8* to, i64 pitch, const StagedRow* staged, i32 count, ColumnRange columns) {
  constexpr i32 across = StagedRow::columns / width;
#pragma unroll 1
  for (i32 i = lane(); i < count * across; i += wave) {
    const StagedRow& row = staged[i / across];
    const i32 at = i % across * width, column = columns.first + at;
    if (column >= columns.end) continue;
    float x[width];
#pragma unroll
    for (i32 j = 0; j < width; ++j) x[j] = row.o[at + j] * row.factor;
    store_elements<dtype>(to + i / across * pitch + column * bytes_of<dtype>, x);
  }
}

/// The same to where they belong, in whole vectors if all rows lie so. `first_row` counts within the block.
REGARD_DEVICE void send_rows(const Arguments& a, i64 first_byte, const StagedRow* staged, i32 first_row,
                             i32 count, ColumnRange columns) {
  constexpr i32 width = smaller(power_of_two_in(key::dv), 8), of_parts = smaller(width, 4),
                of_out = smaller(width, 16 / bytes_of<key::out>);
  const bool is_part = a.splits > 1;
  const i64 pitch = is_part ? key::dv * 4 : a.o.row * bytes_of<key::out>;
  u8* const to = (is_part ? reinterpret_cast<u8*>(a.partial_o) : static_cast<u8*>(a.o.data)) + first_byte +
                 first_row * pitch;
  if (is_part)
    store_rows<DType::fp32, of_parts>(to, pitch, staged, count, columns);
  else if ((reinterpret_cast<u64>(to) | static_cast<u64>(pitch)) % (of_out * bytes_of<key::out>) == 0)
    store_rows<key::out, of_out>(to, pitch, staged, count, columns);
  else
    store_rows<key::out, 1>(to, pitch, staged, count, columns);
}

/// The columns [first_column, first_column + block_dv) of a wave's rows.
REGARD_DEVICE void store(const Arguments& a, const Destination& to, StagedRow* staged, const RowState& rows,
                         const Output& o, i32 first_column, float natural) {
  constexpr i32 tiles = StagedRow::columns / Fragment::columns;
  const i32 wave_row = thread() / wave * wave_rows;
  const i32 count = smaller(to.rows - wave_row, wave_rows);
  staged += wave_row;
  StagedRow* const own = staged + Fragment::row();
  const u32 own_columns = shared_address(own->o + Fragment::column());
  each_row([&](i32 m, i32 half) {
    const float sum = row_sum(rows.sum[m][half]);
    if (!Fragment::first_of_row()) return;
    StagedRow& row = own[row_offset(m, half)];
    row.reference = rows.reference[m][half];
    row.sum = sum;
  });
  sync_wave();
  end_rows(a, to, staged, wave_row, count, first_column == 0, natural);
#pragma unroll
  for (i32 first = 0; first < column_tiles; first += tiles) {
    sync_wave();
    each_row([&](i32 m, i32 half) {
      const u32 row = own_columns + static_cast<u32>(row_offset(m, half) * sizeof(StagedRow));
#pragma unroll
      for (i32 c = 0; c < tiles && first + c < column_tiles; ++c)
        store_shared(row + c * Fragment::columns * 4, o[m][first + c].x[half]);
    });
    sync_wave();
    send_rows(a, to.o, staged, wave_row, count,
              {first_column + first * Fragment::columns, smaller<i32>(key::dv, first_column + block_dv)});
  }
}

}  // namespace regard
