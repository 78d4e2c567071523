// Merges the caller's partial results into one: O = sum of O_part * exp(LSE_part - LSE), where LSE = log(sum
// of exp(LSE_part)). A thread has four vectors of 8 columns of a row of one head, as far apart as there are
// threads of the row; after the threads of a row come those of the token's next head, in the order of memory.
// The loads of LSE and O of the first parts are issued before any of them is used, so that a thread waits for
// memory once.
#include "kernels/portable/element.h"
#include "kernels/portable/merge_schedule.h"
#include "kernels/sequence.h"

namespace regard {

constexpr i64 part_bytes = bytes_of<config::dtype>, out_bytes = bytes_of<config::out>;

/// Parts whose O is loaded at the same time: 32 bytes of each vector.
constexpr i32 together = 32 / (merge_width * part_bytes);
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

/// LSE of parts whose O is loaded at the same time; -infinity after the last part.
struct LseTogether {
  float of[together];

  REGARD_DEVICE void load(const PartialRow& row, i64 first) {
#pragma unroll
    for (i32 i = 0; i < together; ++i) of[i] = first + i < row.parts ? row.lse_of(first + i) : -infinity;
  }
};

/// The logarithm of the sum of exp over all parts, whose first LSE are given, and over the row's own LSE;
/// -infinity if all of them are.
REGARD_DEVICE float merged_lse(const PartialRow& row, const LseTogether& first, float own) {
  float maximum = own;
#pragma unroll
  for (i32 i = 0; i < together; ++i) maximum = fmaxf(maximum, first.of[i]);
#pragma unroll 2
  for (i64 part = together; part < row.parts; ++part) maximum = fmaxf(maximum, row.lse_of(part));
  const float finite_max = maximum == -infinity ? 0 : maximum;  // a part may be NaN; fmaxf ignores that
  float sum = expf(own - finite_max);
#pragma unroll 1
  for (i64 begin = 0; begin < row.parts; begin += in_one_sum) {
    const i64 end = smaller(begin + in_one_sum, row.parts);
    float some = 0;
    if (begin == 0) {
#pragma unroll
      for (i32 i = 0; i < together; ++i) some += expf(first.of[i] - finite_max);
    }
#pragma unroll 2
    for (i64 part = begin == 0 ? together : begin; part < end; ++part)
      some += expf(row.lse_of(part) - finite_max);
    sum += some;
  }
  return finite_max + logf(sum);
}

/// `width` neighbouring columns of a row, as they are in memory: 8 by vector instructions, or one.
template <DType dtype, i32 width>
struct Columns {
  u32 words[width == 1 ? 1 : width * bytes_of<dtype> / 4];

  REGARD_DEVICE void load(const u8* from) {
    if constexpr (width == 1)
      words[0] = bits_as<u32>(load_element<dtype>(from, 0));
    else
      load_words(words, from);
  }
  REGARD_DEVICE void add_to(float (&sum)[width], float scale) const {
    float x[width];
    if constexpr (width == 1)
      x[0] = bits_as<float>(words[0]);
    else
      elements_of<dtype>(x, words);
#pragma unroll
    for (i32 c = 0; c < width; ++c) sum[c] = fmaf(scale, x[c], sum[c]);
  }
};

/// A row of one head of the result. If the call accumulates, its previous contents are one more part.
struct MergedRow {
  u8* o;
  float own, lse;  // own: of the previous contents, -infinity if they do not count; lse: of the result
};

/// Columns of a row's previous contents and of its first parts, all of which are requested before the first
/// one is used.
template <i32 width>
struct FirstColumns {
  Columns<config::out, width> own;
  Columns<config::dtype, width> parts[together];

  REGARD_DEVICE void load_parts(const PartialRow& row, i64 first, i64 column) {
    const u8* from = row.o + (first * row.o_step + column) * part_bytes;
#pragma unroll
    for (i32 i = 0; i < together; ++i, from += row.o_step * part_bytes)
      if (first + i < row.parts) parts[i].load(from);
  }
  REGARD_DEVICE void load(const PartialRow& row, const MergedRow& merged, i64 column, bool accumulate) {
    load_parts(row, 0, column);
    if (accumulate) own.load(merged.o + column * out_bytes);
  }

  /// O of a part without a visible key may be anything.
  REGARD_DEVICE void add_parts(float (&sum)[width], const LseTogether& of_parts, float lse) const {
#pragma unroll
    for (i32 i = 0; i < together; ++i)
      if (of_parts.of[i] != -infinity) parts[i].add_to(sum, expf(of_parts.of[i] - lse));
  }

  /// Merges and stores the columns. Their loads and those of the first parts' LSE have been issued.
  REGARD_DEVICE void merge(const PartialRow& row, LseTogether of_parts, const MergedRow& merged, i64 column) {
    float sum[width] = {};
    if (merged.own != -infinity) own.add_to(sum, expf(merged.own - merged.lse));
#pragma unroll 1
    for (i64 begin = 0; begin < row.parts; begin += in_one_sum) {
      const i64 end = smaller(begin + in_one_sum, row.parts);
      float some[width] = {};
#pragma unroll 1
      for (i64 first = begin; first < end; first += together) {
        if (first > 0) {
          of_parts.load(row, first);
          load_parts(row, first, column);
        }
        add_parts(some, of_parts, merged.lse);
      }
#pragma unroll
      for (i32 c = 0; c < width; ++c) sum[c] += some[c];
    }
    store_elements<config::out>(merged.o + column * out_bytes, sum);
  }
};

/// Whether all rows of a tensor begin at a multiple of the bytes that a vector instruction takes.
REGARD_DEVICE bool is_aligned(const Rows& rows, i64 bytes) {
  const u64 strides = static_cast<u64>(rows.batch | rows.head | rows.row) * static_cast<u64>(bytes);
  return (strides | reinterpret_cast<u64>(rows.data)) % 16 == 0;
}

/// Division of 64-bit numbers is slow, so it is avoided where 32 bits suffice.
REGARD_DEVICE i64 quotient(u64 x, u32 by) {
  return static_cast<i64>(x >> 32 ? x / by : static_cast<u32>(x) / by);
}

constexpr i32 threads = config::warps * wave;
/// Warps of a multiprocessor: 16 leave 128 registers for a thread, as 8 waves of 64 lanes do. With more the
/// kernel spills.
constexpr i32 resident_warps = wave == 64 ? 8 : 16;
constexpr i32 resident_blocks = resident_warps / config::warps;

}  // namespace regard

REGARD_KERNEL(regard::PortableMergeArguments, regard::threads, regard::resident_blocks) {
  using namespace regard;
  const PortableMergeArguments& a = arguments;
  const u32 row_of_block = thread() / static_cast<u32>(a.threads_of_row);
  const u64 row = u64{block_index()} * static_cast<u32>(a.rows_of_block) + row_of_block;
  const u32 heads = static_cast<u32>(a.hq);
  const i64 token = quotient(row, heads), head = static_cast<i64>(row) - token * heads;
  const i64 tokens = a.offsets_q ? a.offsets_q[a.b] : a.tq;
  const bool exists = row_of_block < static_cast<u32>(a.rows_of_block) && token < tokens;
  const i64 mine = i64{thread() % static_cast<u32>(a.threads_of_row)} * merge_width;

  i64 batch = 0, row_of_sequence = token;
  if (!a.offsets_q && a.b > 1) {
    batch = quotient(static_cast<u64>(token), static_cast<u32>(a.sq));
    row_of_sequence -= batch * a.sq;
  }
  const bool vectors =
      a.dv % merge_width == 0 && is_aligned(a.parts_o, part_bytes) && is_aligned(a.o, out_bytes);
  const PartialRow partial(a, head, token);
  MergedRow merged;
  merged.o = static_cast<u8*>(a.o.data) + element_of(a.o, batch, head, row_of_sequence) * out_bytes;
  float* const lse = a.lse.data ? row_of<float>(a.lse, batch, head, row_of_sequence) : nullptr;
  merged.own = a.accumulate && exists ? *lse : -infinity;
  LseTogether of_parts;
  const i64 to_next = i64{a.threads_of_row} * merge_width;
  FirstColumns<merge_width> columns[merge_vectors];
  const auto load = [&](i64 first) {
#pragma unroll
    for (i32 v = 0; v < merge_vectors; ++v) {
      const i64 column = first + v * to_next;
      if (vectors && column < a.dv) columns[v].load(partial, merged, column, a.accumulate);
    }
  };
  if (exists) {
    of_parts.load(partial, 0);
    load(mine);
  }

  // All threads of a row read its LSE before one of them writes it.
  if (a.accumulate) sync_block();
  if (!exists) return;
  merged.lse = merged_lse(partial, of_parts, merged.own);
  if (lse && mine == 0) *lse = merged.lse;
#pragma unroll 1
  for (i64 first = mine; first < a.dv; first += merge_vectors * to_next) {
    if (first > mine) load(first);
#pragma unroll
    for (i32 v = 0; v < merge_vectors; ++v) {
      const i64 column = first + v * to_next, end = smaller<i64>(column + merge_width, a.dv);
      if (vectors && column < end) columns[v].merge(partial, of_parts, merged, column);
      if (vectors) continue;
#pragma unroll 1
      for (i64 one = column; one < end; ++one) {
        FirstColumns<1> element;
        element.load(partial, merged, one, a.accumulate);
        element.merge(partial, of_parts, merged, one);
      }
    }
  }
}
