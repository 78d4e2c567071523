// The end of a block: stores rows of O and LSE or, for one part of the keys, of the workspace.
//
// O goes through shared memory, where the last tiles were. A loop copies it from there to any row address;
// stored from registers, each pair of numbers would need its own instructions, as it does for a part of the
// keys.
#pragma once

#include "kernels/portable/scores.h"
#include "kernels/portable/softmax.h"
#include "kernels/portable/work.h"
#include "kernels/range.h"
#include "kernels/sink.h"

namespace regard {

/// The start of the free shared memory: Q is read again if more columns follow.
constexpr i64 first_free_byte = layout.dv > block_dv ? layout.q : 0;
constexpr i64 free_bytes = layout.tiles - first_free_byte;

/// The type of O in shared memory: the one in which it will be stored or, if that is not 16-bit, fp32.
constexpr DType staged = bytes_of<config::out> == 2 ? config::out : DType::fp32;

/// A row to be stored, with as many columns of O as there is room for.
struct alignas(16) StagedRow {
  static constexpr i32 width = bytes_of<staged>;
  static constexpr i32 end_bytes = width == 2 ? 16 : 32;  // rows of neighbouring lanes are in different banks
  static constexpr i32 unit = OutputColumns::run_columns;
  static constexpr i32 columns =
      smaller<i32>(block_dv, (free_bytes / block_q - end_bytes) / width / unit * unit);
  static_assert(columns > 0);

  u8 o[columns * width + end_bytes - 16];
  float row_max, factor, sum[2];  // of the softmax, and then of O; one sum for each wave that shares rows

  /// One for each wave that shares rows, where O comes later.
  REGARD_DEVICE float* largest() {
    static_assert(sizeof o >= 2 * sizeof(float));
    return reinterpret_cast<float*>(o);
  }
};
static_assert(sizeof(StagedRow) == StagedRow::columns * StagedRow::width + StagedRow::end_bytes);

static_assert(across == 1 || StagedRow::columns == block_dv);

/// Waits for all waves that share rows.
REGARD_DEVICE void sync_rows() {
  if constexpr (across > 1)
    sync_block();
  else
    sync_wave();
}

/// What a block stores of packed rows, whose first row is that of the first head and query; otherwise
/// nothing.
template <bool packed>
struct RowsOfBlock {
  RowsOfBlock() = default;
  REGARD_DEVICE RowsOfBlock(const PortableForwardArguments&, i64, i32) {}

  REGARD_DEVICE RowSteps<false> steps(i64 pack_gqa, i64 head, i64 row) const {
    return {pack_gqa > 1 ? head : row};
  }
  REGARD_DEVICE float sink_of_row(const PortableForwardArguments&, i32, float of_block) const {
    return of_block;
  }
};
template <>
struct RowsOfBlock<true> {
  PackedRows packed;
  i32 first_row, head;

  RowsOfBlock() = default;
  REGARD_DEVICE RowsOfBlock(const PortableForwardArguments& a, i64 first_head, i32 row)
      : packed(a.pack_gqa), first_row(row), head(static_cast<i32>(first_head)) {}

  REGARD_DEVICE RowSteps<true> steps(i64, i64 head, i64 query) const {
    return {packed, first_row, head, query};
  }
  REGARD_DEVICE float sink_of_row(const PortableForwardArguments& a, i32 row, float) const {
    return sink_of(a, a, head + packed.of(first_row + row).head);
  }
};

/// The first row of a block.
REGARD_DEVICE HeadRow first_row_of(const PortableForwardArguments& a, const Head& head,
                                   const PortableForwardWork& work) {
  return packs_rows ? HeadRow{head.head, 0} : row_of_group(a.pack_gqa, head.head, work.first_row);
}

/// Where the rows of a block are stored, and what is done to them besides the softmax. Computed once, at the
/// start.
struct Destination : RowsOfBlock<packs_rows> {
  i64 o, lse;  // the first row: of O in bytes, of a part's and of LSE in numbers
  float factor, sink;
  i32 rows;

  Destination() = default;
  REGARD_DEVICE Destination(const PortableForwardArguments& a, const Head& head,
                            const PortableForwardWork& work)
      : RowsOfBlock(a, head.head, work.first_row) {
    const HeadRow first = first_row_of(a, head, work);
    if (a.splits > 1) {
      lse = head.row_of_part(first, work.split);
      o = lse * config::dv;
    } else {
      lse = head.lse(first) - static_cast<float*>(a.lse.data);
      o = head.o(first) - static_cast<u8*>(a.o.data);
    }
    factor = a.dropout_scale * descale_keys(head, a.descale_v);
    sink = sink_of(a, a, head.head);
    const i64 of_heads = packs_rows ? head.sequence.sq * a.pack_gqa : head.sequence.sq;
    rows = static_cast<i32>(smaller<i64>(of_heads - work.first_row, block_q));
  }

  /// The steps from row to row of a tensor, and of the results of a part.
  REGARD_DEVICE RowSteps<packs_rows> steps_of(const PortableForwardArguments& a, const Rows& tensor) const {
    return steps(a.pack_gqa, tensor.head, tensor.row);
  }
  REGARD_DEVICE RowSteps<packs_rows> steps_of_part(const PortableForwardArguments& a) const {
    return steps(1, a.offsets_q ? a.tq : a.sq, 1);
  }
};

/// Where row_max of a block's first row is stored.
REGARD_DEVICE float* row_max_of_block(const PortableForwardArguments& a, const PortableForwardWork& work) {
  const Head head(a, work.batch, work.head);
  const HeadRow first = first_row_of(a, head, work);
  return a.splits > 1 ? a.partial_row_max + head.row_of_part(first, work.split) : head.row_max(first);
}

/// Ends the softmax; computes LSE, row_max and the factor of O. By the wave that has the rows (the first one
/// if two do), for `count` rows of the block from `first_row` on.
REGARD_DEVICE void end_rows(const PortableForwardArguments& a, const PortableForwardWork& work,
                            const Destination& to, StagedRow* staged, i32 first_row, i32 count,
                            bool writes_rows, float natural) {
  const bool is_part = a.splits > 1;
  float* const lse = is_part ? a.partial_lse : static_cast<float*>(a.lse.data);
  const auto steps = is_part ? to.steps_of_part(a) : to.steps_of(a, a.lse);
  float* const row_max = config::row_max ? row_max_of_block(a, work) : nullptr;
  const auto steps_of_row_max = is_part ? to.steps_of_part(a) : to.steps_of(a, a.row_max);
  const bool writes_lse = writes_rows && lse, writes_row_max = config::row_max && writes_rows;
  const float factor = to.factor, sink = to.sink;
#pragma unroll 1
  for (i32 i = lane(); i < count; i += wave) {
    StagedRow& row = staged[i];
    const float sum = across > 1 ? row.sum[0] + row.sum[1] : row.sum[0];
    const PortableSoftmaxEnd end =
        end_softmax(row.row_max, sum, natural, to.sink_of_row(a, first_row + i, sink));
    row.factor = end.inverse * factor;
    if (writes_lse) lse[to.lse + steps.at(first_row + i)] = end.lse;
    if (writes_row_max) {
      const float largest = across > 1 ? fmaxf(row.largest()[0], row.largest()[1]) : row.largest()[0];
      row_max[steps_of_row_max.at(first_row + i)] = row_max_of(largest, end.lse, natural);
    }
  }
}

/// Stages as many of the wave's columns of O as there is room for, `width` neighbours at a time; `to` has
/// column 0 of the first row.
template <i32 width>
REGARD_DEVICE void send_rows(u8* to, const RowSteps<packs_rows>& steps, i32 first_row, const StagedRow* rows,
                             i32 count, Range32 columns) {
  constexpr i32 vectors = StagedRow::columns / width;
#pragma unroll 4
  for (i32 i = lane() + part_of_wave() * wave; i < wave_rows * vectors; i += across * wave) {
    const i32 at = i % vectors * width, column = columns.begin + at;
    if (i >= count * vectors || column >= columns.end) continue;
    const u8* const from = rows[i / vectors].o + at * StagedRow::width;
    u8* const there = to + (steps.at(first_row + i / vectors) + column) * bytes_of<config::out>;
    if constexpr (staged == config::out) {
      copy_bytes<width * bytes_of<staged>>(there, from);
    } else {
      float x[width];
#pragma unroll
      for (i32 j = 0; j < width; ++j) x[j] = reinterpret_cast<const float*>(from)[j];
      store_elements<config::out>(there, x);
    }
  }
}

/// Copies staged rows to their destination, in whole vectors if the alignment of all rows allows it.
/// `first_row` counts within the block.
REGARD_DEVICE void send_rows(const PortableForwardArguments& a, const Destination& block,
                             const StagedRow* rows, i32 first_row, i32 count, Range32 columns) {
  constexpr i32 bytes = bytes_of<config::out>,
                width = smaller(smaller(power_of_two_in(config::dv), 8), 16 / bytes);
  const auto steps = block.steps_of(a, a.o);
  u8* const to = static_cast<u8*>(a.o.data) + block.o;
  if ((reinterpret_cast<u64>(to) | static_cast<u64>(steps.strides() * bytes)) % (width * bytes) == 0)
    send_rows<width>(to, steps, first_row, rows, count, columns);
  else
    send_rows<1>(to, steps, first_row, rows, count, columns);
}

/// Stores rows of a part of the keys, which are consecutive: neighbouring lanes write 32 bytes of one row.
REGARD_DEVICE void send_part(float* to, const RowSteps<packs_rows>& steps, i32 first_row, const Output& o,
                             i32 count, i32 own_column) {
  constexpr bool all_columns = config::dv == layout.dv;
  each_row([&](i32 m, i32 half) {
    const i32 row = Fragment::row() + row_offset(m, half);
    if (row >= count) return;
    float* const of_row = to + steps.at(first_row + row) * config::dv + own_column;
    OutputColumns::each_run(o[m], half, [&](i32 offset, const float(&x)[OutputColumns::run]) {
#pragma unroll
      for (i32 i = 0; i < OutputColumns::run; i += 2) {
        const i32 column = own_column + offset + i;
        float* const there = of_row + offset + i;  // the instruction adds this offset
        if constexpr (config::dv % 2 == 0) {
          if (all_columns || column < config::dv) store_pair(there, x[i], x[i + 1]);
        } else {
          if (column < config::dv) there[0] = x[i];
          if (column + 1 < config::dv) there[1] = x[i + 1];
        }
      }
    });
  });
}

/// The columns [first_column, first_column + block_dv) of the rows; a wave has all of them or a part.
REGARD_DEVICE void store(const PortableForwardArguments& a, const PortableForwardWork& work,
                         const Destination& to, StagedRow* staged_rows, const WaveRowState& rows, Output& o,
                         i32 first_column, float natural) {
  constexpr i32 runs = OutputColumns::runs(column_tiles),
                at_once = StagedRow::columns / StagedRow::unit / across;
  const i32 wave_row = row_of_wave(), part = part_of_wave();
  const i32 count = smaller(to.rows - wave_row, wave_rows),
            end = smaller<i32>(config::dv, first_column + block_dv);
  staged_rows += wave_row;
  StagedRow* const own = staged_rows + Fragment::row();
  each_row([&](i32 m, i32 half) {
    const float sum = reduce_sum(rows.sum[m][half]);
    const float largest = config::row_max ? reduce_max(rows.largest[m][half]) : 0;
    if (!Fragment::first_of_row()) return;
    StagedRow& row = own[row_offset(m, half)];
    if (part == 0) row.row_max = rows.row_max[m][half];
    row.sum[part] = sum;
    if constexpr (config::row_max) row.largest()[part] = largest;
  });
  sync_rows();
  if (part == 0) end_rows(a, work, to, staged_rows, wave_row, count, first_column == 0, natural);
  sync_rows();
  RowNumbers factor;
  each_row([&](i32 m, i32 half) { factor[m][half] = own[row_offset(m, half)].factor; });
  rescale(o, factor);
  const i32 own_column = OutputColumns::of_thread(part);
  if (a.splits > 1) {
    send_part(a.partial_o + to.o, to.steps_of_part(a), wave_row, o, count, first_column + own_column);
    return;
  }
  const u32 own_columns = shared_address(own->o + own_column * StagedRow::width);
#pragma unroll
  for (i32 first = 0; first < runs; first += at_once) {
    if (first > 0) sync_rows();
    each_row([&](i32 m, i32 half) {
      const u32 row = own_columns + static_cast<u32>(row_offset(m, half) * sizeof(StagedRow));
      OutputColumns::each_run(o[m], half, first, smaller(first + at_once, runs),
                              [&](i32 offset, const float(&x)[OutputColumns::run]) {
                                store_numbers<staged>(
                                    row + (offset - first * StagedRow::unit) * StagedRow::width, x);
                              });
    });
    sync_rows();
    send_rows(a, to, staged_rows, wave_row, count, {first_column + first * StagedRow::unit, end});
  }
}

}  // namespace regard
