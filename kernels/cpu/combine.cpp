// Merges the results of the parts of a split key range: O = sum of O_part * exp(LSE_part - LSE). The learned
// sink, which the parts ignore, is added here, once. The pass `merge` does the same with the caller's parts.
#include "kernels/cpu/combine_layout.h"
#include "kernels/cpu/head.h"
#include "kernels/cpu/kernel.h"
#include "kernels/split_keys.h"

namespace regard {
namespace {

constexpr bool merge_pass = config::pass == Pass::merge;
constexpr DType part_type = merge_pass ? config::dtype : DType::fp32;

/// The results of the parts for one row: in the workspace, or the caller's.
struct PartialRow {
  const u8* o;  // of the first part
  const float* lse;
  i64 o_step, lse_step;  // to the next one, in elements
  i64 parts;

  PartialRow(const SplitKeysArguments& a, const Head& head, i64 row) : parts(a.splits) {
    if constexpr (merge_pass) {
      const i64 token = head.sequence.first_q + row + (a.offsets_q ? 0 : head.batch * a.sq);
      o = static_cast<const u8*>(a.parts_o.data) +
          element_of(a.parts_o, 0, head.head, token) * bytes_of<part_type>;
      lse = row_of<float>(a.parts_lse, 0, head.head, token);
      o_step = a.parts_o.batch, lse_step = a.parts_lse.batch;
    } else {
      const i64 row_index = head.row_number(row);
      o = reinterpret_cast<const u8*>(a.partial_o + row_index * a.dv);
      lse = a.partial_lse + row_index;
      lse_step = rows_of_part(a), o_step = lse_step * a.dv;
    }
  }

  float lse_of(i64 part) const { return lse[part * lse_step]; }
  const u8* o_of(i64 part, i64 column) const { return o + (part * o_step + column) * bytes_of<part_type>; }
};

/// Numbers of one row that are added to those of its parts: the learned sink, which has no O, or what the row
/// held before.
struct OwnRow {
  float lse;
  const u8* o;  // null: 0

  OwnRow(const SplitKeysArguments& a, const Head& head, i64 row)
      : lse(a.sink ? a.sink[head.head] : -infinity), o(nullptr) {
    if (!merge_pass || !a.accumulate) return;
    lse = *head.lse(row);
    if (lse != -infinity) o = head.o(row);
  }
};

/// The sum of term(part) over all parts; groups of parts are summed separately, so that any number of them
/// is accurate.
template <class Term>
REGARD_INLINE Floats sum_over(i64 parts, const Term& term) {
  constexpr i64 together = 64;
  Floats sum{};
  for (i64 first = 0; first < parts; first += together) {
    Floats some{};
    for (i64 part = first; part < smaller(first + together, parts); ++part) some += term(part);
    sum += some;
  }
  return sum;
}

/// log of the sum of exp over the parts and the row's own; -infinity if all of them are.
float merged_lse(const PartialRow& parts, float own) {
  float maximum = own;
  for (i64 part = 0; part < parts.parts; ++part) maximum = larger(maximum, parts.lse_of(part));
  const float finite_max =
      maximum == -infinity ? 0.0f : maximum;  // a part may be NaN, which the maximum ignores
  const Floats sum = exp2(broadcast((own - finite_max) * log2_of_e)) + sum_over(parts.parts, [&](i64 part) {
                       return exp2(broadcast((parts.lse_of(part) - finite_max) * log2_of_e));
                     });
  return sum[0] == 0 ? -infinity : finite_max + log(sum)[0];
}

template <DType dtype>
REGARD_INLINE Floats load_some(const u8* from, i64 count) {
  return count == lanes ? load_floats<dtype>(from) : load_floats<dtype>(from, count);
}

/// A part without a visible key has no weight, and its O is not read.
template <DType dtype>
REGARD_INLINE Floats weighted(const u8* from, i64 count, float part_lse, float lse) {
  if (part_lse == -infinity) return Floats{};
  return exp2(broadcast((part_lse - lse) * log2_of_e)) * load_some<dtype>(from, count);
}

/// The largest score of a row, NaN if that of a part is.
float merged_row_max(const SplitKeysArguments& a, const Head& head, i64 row) {
  float row_max = -infinity;
  for (i64 part = 0; part < a.splits; ++part) {
    const float of_part = a.partial_row_max[part * rows_of_part(a) + head.row_number(row)];
    if (of_part > row_max || of_part != of_part) row_max = of_part;
  }
  return row_max;
}

void merge_row(const SplitKeysArguments& a, const Head& head, i64 row) {
  const PartialRow parts(a, head, row);
  const OwnRow own(a, head, row);
  const float lse = merged_lse(parts, own.lse);
  if (a.lse.data) *head.lse(row) = lse;
  if (a.row_max.data) *head.row_max({head.head, row}) = merged_row_max(a, head, row);

  const i64 dv = a.dv;
  for (i64 column = 0; column < dv; column += lanes) {
    const i64 count = smaller<i64>(lanes, dv - column);
    Floats sum = sum_over(parts.parts, [&](i64 part) {
      return weighted<part_type>(parts.o_of(part, column), count, parts.lse_of(part), lse);
    });
    if (own.o) sum += weighted<config::out>(own.o + column * bytes_of<config::out>, count, own.lse, lse);
    u8* to = head.o(row) + column * bytes_of<config::out>;
    if (count == lanes)
      store_floats<config::out>(to, sum);
    else
      store_floats<config::out>(to, sum, count);
  }
}

}  // namespace
}  // namespace regard

REGARD_KERNEL(REGARD_SYMBOL) {
  using namespace regard;
  static_cast<void>(scratch);
  const auto& a = static_cast<const SplitKeysArguments&>(*arguments);
  const i64 row_blocks = ceil_divide(a.sq, combine_rows);
  const i64 first_row = block % row_blocks * combine_rows;
  const i64 head_index = block / row_blocks;
  const Head head(a, head_index / a.hq, head_index % a.hq);
  for (i64 row = first_row; row < smaller(first_row + combine_rows, head.sequence.sq); ++row)
    merge_row(a, head, row);
}
