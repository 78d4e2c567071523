// Merges the caller's partial results into one: O = sum of O_part * exp(LSE_part - LSE), where LSE = log(sum
// of exp(LSE_part)). A thread has 8 neighbouring columns of a row of one head; its neighbours have the row's
// other columns, then the next heads of the same token, as they are in memory. O of the first parts is being
// loaded before the first LSE is known.
#include "kernels/portable/element.h"
#include "kernels/portable/merge_schedule.h"
#include "kernels/sequence.h"

namespace regard {

constexpr i64 part_bytes = bytes_of<config::dtype>, out_bytes = bytes_of<config::out>;

/// Parts whose O is loaded at the same time: 64 bytes of a thread.
constexpr i32 together = 64 / (merge_width * part_bytes);
/// Parts that are summed separately, so that a sum over thousands of them loses no digits.
constexpr i64 in_one_sum = 64;

/// A row of one head of the partial results.
struct PartialRow {
  const u8* o;  // of the first part
  const float* lse;
  i64 o_step, lse_step;  // to the next part, in elements
  i64 parts;

  REGARD_DEVICE PartialRow(const PortableMergeArguments& a, i64 head, i64 token)
      : o(static_cast<const u8*>(a.parts_o.data) + element_of(a.parts_o, 0, head, token) * part_bytes),
        lse(row_of<const float>(a.parts_lse, 0, head, token)),
        o_step(a.parts_o.batch),
        lse_step(a.parts_lse.batch),
        parts(a.parts) {}

  REGARD_DEVICE float lse_of(i64 part) const { return global(lse)[part * lse_step]; }
};

/// log of the sum of exp over the parts and the row's own; -infinity if all of them are.
REGARD_DEVICE float merged_lse(const PartialRow& row, float own) {
  float maximum = own;
#pragma unroll 2
  for (i64 part = 0; part < row.parts; ++part) maximum = fmaxf(maximum, row.lse_of(part));
  const float finite_max = maximum == -infinity ? 0 : maximum;  // a part may be NaN; fmaxf ignores that
  float sum = expf(own - finite_max);
#pragma unroll 1
  for (i64 begin = 0; begin < row.parts; begin += in_one_sum) {
    const i64 end = smaller(begin + in_one_sum, row.parts);
    float some = 0;
#pragma unroll 2
    for (i64 part = begin; part < end; ++part) some += expf(row.lse_of(part) - finite_max);
    sum += some;
  }
  return finite_max + logf(sum);
}

/// `width` neighbouring columns of some parts, as they are in memory: 8 by vector instructions, or one.
template <i32 width>
struct PartColumns {
  u32 words[together][width == 1 ? 1 : width * bytes_of<config::dtype> / 4];

  REGARD_DEVICE void load(const PartialRow& row, i64 first, i64 column) {
    const u8* from = row.o + (first * row.o_step + column) * part_bytes;
#pragma unroll
    for (i32 i = 0; i < together; ++i, from += row.o_step * part_bytes) {
      if (first + i >= row.parts) break;
      if constexpr (width == 1)
        words[i][0] = bits_as<u32>(load_element<config::dtype>(from, 0));
      else
        load_words(words[i], from);
    }
  }

  /// O of a part without a visible key may be anything.
  REGARD_DEVICE void add_to(float (&sum)[width], const PartialRow& row, i64 first, float lse) const {
#pragma unroll
    for (i32 i = 0; i < together; ++i) {
      if (first + i >= row.parts) break;
      const float of_part = row.lse_of(first + i);
      if (of_part == -infinity) continue;
      const float scale = expf(of_part - lse);
      float x[width];
      if constexpr (width == 1)
        x[0] = bits_as<float>(words[i][0]);
      else
        elements_of<config::dtype>(x, words[i]);
#pragma unroll
      for (i32 c = 0; c < width; ++c) sum[c] = fmaf(scale, x[c], sum[c]);
    }
  }
};

/// A row of O and what it becomes.
struct MergedRow {
  u8* o;
  float own, lse;  // LSE of what the row held before, which is one more part; -infinity: of nothing
};

/// From `column` on; `columns`: those of the first parts.
template <i32 width>
REGARD_DEVICE void merge_columns(const PartialRow& row, const MergedRow& merged, i64 column,
                                 PartColumns<width>& columns) {
  u8* const o = merged.o + column * out_bytes;
  float sum[width] = {};
  if (merged.own != -infinity) {
    const float scale = expf(merged.own - merged.lse);
#pragma unroll
    for (i32 c = 0; c < width; ++c) sum[c] = scale * load_element<config::out>(o, c);
  }
#pragma unroll 1
  for (i64 begin = 0; begin < row.parts; begin += in_one_sum) {
    const i64 end = smaller(begin + in_one_sum, row.parts);
    float some[width] = {};
#pragma unroll 1
    for (i64 first = begin; first < end; first += together) {
      if (first > 0) columns.load(row, first, column);
      columns.add_to(some, row, first, merged.lse);
    }
#pragma unroll
    for (i32 c = 0; c < width; ++c) sum[c] += some[c];
  }
  store_elements<config::out>(o, sum);
}

/// Whether all rows of a tensor begin at a multiple of the bytes that a vector instruction takes.
REGARD_DEVICE bool is_aligned(const Rows& rows, i64 bytes) {
  const u64 strides = static_cast<u64>(rows.batch | rows.head | rows.row) * static_cast<u64>(bytes);
  return (strides | reinterpret_cast<u64>(rows.data)) % 16 == 0;
}

constexpr i32 threads = config::warps * wave;
/// Blocks of a multiprocessor: 28 warps leave 72 registers for a thread, and 16 waves of 64 lanes 128. With 32
/// warps it spills.
constexpr i32 resident_blocks = (wave == 64 ? 16 : 28) / config::warps;

}  // namespace regard

REGARD_KERNEL(regard::PortableMergeArguments, regard::threads, regard::resident_blocks) {
  using namespace regard;
  const PortableMergeArguments& a = arguments;
  const u32 row_of_block = thread() / static_cast<u32>(a.threads_of_row);
  const u64 row = u64{block_index()} * static_cast<u32>(a.rows_of_block) + row_of_block;
  const u32 heads = static_cast<u32>(a.hq);
  // Division by 64-bit numbers is slow.
  const i64 token = static_cast<i64>(row >> 32 ? row / heads : static_cast<u32>(row) / heads);
  const i64 head = static_cast<i64>(row) - token * heads;
  const i64 tokens = a.offsets_q ? a.offsets_q[a.b] : a.tq;
  const bool exists = row_of_block < static_cast<u32>(a.rows_of_block) && token < tokens;
  const i64 mine = i64{thread() % static_cast<u32>(a.threads_of_row)} * merge_width;

  const bool vectors =
      a.dv % merge_width == 0 && is_aligned(a.parts_o, part_bytes) && is_aligned(a.o, out_bytes);
  const PartialRow partial(a, head, token);
  PartColumns<merge_width> first_columns;
  if (exists && vectors && mine < a.dv) first_columns.load(partial, 0, mine);

  i64 batch = 0, row_of_sequence = token;
  if (!a.offsets_q && a.b > 1) batch = token / a.sq, row_of_sequence = token - batch * a.sq;
  float* const lse = a.lse.data ? row_of<float>(a.lse, batch, head, row_of_sequence) : nullptr;
  MergedRow merged;
  merged.o = static_cast<u8*>(a.o.data) + element_of(a.o, batch, head, row_of_sequence) * out_bytes;
  merged.own = a.accumulate && exists ? *lse : -infinity;
  // All threads of a row read its LSE before one of them writes it.
  if (a.accumulate) sync_block();
  if (!exists) return;
  merged.lse = merged_lse(partial, merged.own);
  if (lse && mine == 0) *lse = merged.lse;
#pragma unroll 1
  for (i64 column = mine; column < a.dv; column += i64{a.threads_of_row} * merge_width) {
    if (vectors) {
      if (column > mine) first_columns.load(partial, 0, column);
      merge_columns(partial, merged, column, first_columns);
      continue;
    }
#pragma unroll 1
    for (i64 one = column; one < smaller<i64>(column + merge_width, a.dv); ++one) {
      PartColumns<1> element;
      element.load(partial, 0, one);
      merge_columns(partial, merged, one, element);
    }
  }
}
