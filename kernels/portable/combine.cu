// Merges the results of the parts of a split key range: O = sum of O_part * exp(LSE_part - LSE). The learned
// sink, which the parts ignore, is added here, once. A wave has one row of one (batch, head), a block has
// rows of `pack_gqa` neighbouring heads; the grid is b * hq / pack_gqa * ceil(pack_gqa * sq / config::warps)
// blocks.
//
// The kernel is bound by memory latency: it begins while the parts are still being computed, each lane holds
// the LSE of a different part, and O of some parts is being loaded before the first scale is known.
#include "kernels/head.h"
#include "kernels/key_part.h"
#include "kernels/machine/pdl.h"
#include "kernels/portable/combine_schedule.h"
#include "kernels/portable/element.h"

namespace regard {

/// The results of the parts for one row.
struct PartialRow {
  const float *o, *lse;  // of the first part
  i64 o_step, lse_step;  // to the next one
  i64 parts;

  REGARD_DEVICE PartialRow(const PortableCombineArguments& a, const Head& head, i64 row)
      : parts(config::batch_invariant ? parts_of_sequence(a, static_cast<i32>(head.sequence.sk)) : a.splits) {
    const i64 row_index = head.row_number(row);
    lse = a.partial_lse + row_index;
    o = a.partial_o + row_index * a.dv;
    lse_step = rows_of_part(a);
    o_step = lse_step * a.dv;
  }

  /// -infinity past the last part, as for a part without a visible key.
  REGARD_DEVICE float lse_of(i64 part) const { return part < parts ? lse[part * lse_step] : -infinity; }
};

template <class Join>
REGARD_DEVICE float over_wave(float x, Join join) {
#pragma unroll
  for (i32 distance = wave / 2; distance > 0; distance /= 2) x = join(x, from_lane(x, lane() ^ distance));
  return x;
}

/// log of the sum of exp over the parts and the sink; -infinity if all of them are. The same in every
/// lane.
REGARD_DEVICE float merged_lse(const PartialRow& row, float sink) {
  float maximum = sink;
#pragma unroll 1
  for (i64 part = lane(); part < row.parts; part += wave) maximum = fmaxf(maximum, row.lse_of(part));
  maximum = over_wave(maximum, [](float a, float b) { return fmaxf(a, b); });
  const float finite_max = maximum == -infinity ? 0 : maximum;  // a part may be NaN; fmaxf ignores that
  float sum = lane() == 0 ? expf(sink - finite_max) : 0;
#pragma unroll 1
  for (i64 part = lane(); part < row.parts; part += wave) sum += expf(row.lse_of(part) - finite_max);
  return finite_max + logf(over_wave(sum, [](float a, float b) { return a + b; }));
}

/// The largest row_max of the parts; NaN if one is. `of_first`: that of the first part.
REGARD_DEVICE float merged_row_max(const PartialRow& row, const float* of_first) {
  const auto join = [](float a, float b) { return a > b || a != a ? a : b; };
  float row_max = -infinity;
#pragma unroll 1
  for (i64 part = lane(); part < row.parts; part += wave)
    row_max = join(row_max, of_first[part * row.lse_step]);
  return over_wave(row_max, join);
}

/// Parts whose O is loaded at the same time. More would take registers, and then not all blocks could be
/// resident at once.
constexpr i32 together = 4;
/// Parts that are summed separately, so that a sum over thousands of them loses no digits.
constexpr i64 in_one_sum = 64;

/// A lane's columns of O of some parts; zeros past the last one.
template <i32 width>
struct Columns {
  float x[together][width];

  REGARD_DEVICE void load(const PartialRow& row, i64 first, i64 column) {
    const float* from = row.o + first * row.o_step + column;
#pragma unroll
    for (i32 i = 0; i < together; ++i, from += row.o_step) {
      const bool is_part = first + i < row.parts;
#pragma unroll
      for (i32 c = 0; c < width; ++c) x[i][c] = 0;
      if constexpr (width == 4) {
        if (is_part) load_elements<DType::fp32>(x[i], reinterpret_cast<const u8*>(from));
      } else {
        static_assert(width == 1);
        if (is_part) x[i][0] = *from;
      }
    }
  }

  /// Called by the whole wave; lane i knows the scale of part first + i. A part without a visible key has O
  /// of 0 and a scale of 0.
  REGARD_DEVICE void add_to(float (&sum)[width], const PartialRow& row, i64 first, float lse) const {
    const float mine = row.lse_of(first + lane() % together);
    const float scale = mine == -infinity ? 0.0f : expf(mine - lse);
#pragma unroll
    for (i32 i = 0; i < together; ++i) {
      const float of_part = from_lane(scale, i);
#pragma unroll
      for (i32 c = 0; c < width; ++c) sum[c] = fmaf(of_part, x[i][c], sum[c]);
    }
  }
};

template <i32 width>
REGARD_DEVICE void store_columns(u8* to, const float (&x)[width]) {
  if (reinterpret_cast<u64>(to) % (width * bytes_of<config::out>) == 0) {
    store_elements<config::out>(to, x);
    return;
  }
#pragma unroll
  for (i32 i = 0; i < width; ++i) store_element<config::out>(to, i, x[i]);
}

/// By a whole wave, `width` neighbouring columns in each lane.
template <i32 width>
REGARD_DEVICE void merge_row(const PortableCombineArguments& a, const Head& head, i64 row) {
  const PartialRow partial(a, head, row);
  Columns<width> columns;
  const i64 mine = lane() * width;  // columns
  if (mine < a.dv) columns.load(partial, 0, mine);
  const float lse = merged_lse(partial, a.sink ? a.sink[head.head] : -infinity);
#pragma unroll 1
  for (i64 column = mine; column - mine < a.dv; column += wave * width) {
    const bool within = column < a.dv;
    float sum[width] = {};
#pragma unroll 1
    for (i64 begin = 0; begin < partial.parts; begin += in_one_sum) {
      const i64 end = smaller(begin + in_one_sum, partial.parts);
      float some[width] = {};
#pragma unroll 1
      for (i64 first = begin; first < end; first += together) {
        if (within && first + column > mine) columns.load(partial, first, column);
        columns.add_to(some, partial, first, lse);
      }
#pragma unroll
      for (i32 c = 0; c < width; ++c) sum[c] += some[c];
    }
    if (within) store_columns(head.o(row) + column * bytes_of<config::out>, sum);
  }
  if (a.lse.data && lane() == 0) *head.lse(row) = lse;
  if constexpr (config::row_max) {
    const float row_max = merged_row_max(partial, a.partial_row_max + head.row_number(row));
    if (lane() == 0) *head.row_max({head.head, row}) = row_max;
  }
}

constexpr i32 threads = config::warps * wave;
/// Blocks of a multiprocessor: 36 warps leave 56 registers for a thread, and 32 leave 64, where sequences
/// differ in the number of their parts. Without a bound, ptxas spills on some targets instead of using a few
/// more.
constexpr i32 resident_blocks = (config::batch_invariant ? 32 : 36) / config::warps;

}  // namespace regard

REGARD_KERNEL(regard::PortableCombineArguments, regard::threads, regard::resident_blocks) {
  using namespace regard;
  const u32 sq = static_cast<u32>(arguments.sq), pack_gqa = static_cast<u32>(arguments.pack_gqa);
  const u32 rows = pack_gqa * sq, row_blocks = (rows + config::warps - 1) / config::warps;
  const u32 index = block_index() / row_blocks, heads = static_cast<u32>(arguments.hq) / pack_gqa;
  const u32 group_row = block_index() % row_blocks * config::warps + thread() / wave, row = group_row % sq;
  const Head head(arguments, index / heads, index % heads * pack_gqa + group_row / sq);
  wait_on_dependent_grids();
  if (group_row >= rows || row >= head.sequence.sq) return;
  if (arguments.dv % 4 == 0)
    merge_row<4>(arguments, head, row);
  else
    merge_row<1>(arguments, head, row);
}
