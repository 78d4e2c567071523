// Merges the results of the parts of a split key range: O = sum of O_part * exp(LSE_part - LSE). The learned
// sink, which the parts ignore, is added here, once.
#include "kernels/cpu/combine_layout.h"
#include "kernels/cpu/head.h"
#include "kernels/cpu/kernel.h"
#include "kernels/split_keys.h"

namespace regard {
namespace {

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

/// log of the sum of exp over the parts and the sink; -infinity if all of them are.
float merged_lse(const SplitKeysArguments& a, i64 row_index, float sink) {
  float maximum = sink;
  for (i64 split = 0; split < a.splits; ++split)
    maximum = larger(maximum, a.partial_lse[split * rows_of_part(a) + row_index]);
  const float finite_max =
      maximum == -infinity ? 0.0f : maximum;  // a part may be NaN, which the maximum ignores
  const Floats sum =
      exp2(broadcast((sink - finite_max) * log2_of_e)) + sum_over(a.splits, [&](i64 split) {
        return exp2(broadcast((a.partial_lse[split * rows_of_part(a) + row_index] - finite_max) * log2_of_e));
      });
  return sum[0] == 0 ? -infinity : finite_max + log(sum)[0];
}

void merge_row(const SplitKeysArguments& a, const Head& head, i64 row) {
  const i64 row_index = head.row_number(row);
  const float lse = merged_lse(a, row_index, a.sink ? a.sink[head.head] : -infinity);
  if (a.lse.data) *head.lse(row) = lse;

  const i64 dv = a.dv;
  for (i64 column = 0; column < dv; column += lanes) {
    const i64 count = smaller<i64>(lanes, dv - column);
    const Floats sum = sum_over(a.splits, [&](i64 split) {
      const i64 partial = split * rows_of_part(a) + row_index;
      // A part without a visible key has a scale of 0; its O is 0 too.
      const Floats scale = a.partial_lse[partial] == -infinity
                               ? Floats{}
                               : exp2(broadcast((a.partial_lse[partial] - lse) * log2_of_e));
      const float* from = a.partial_o + partial * dv + column;
      return scale * (count == lanes ? load<Floats>(from) : load_floats<DType::fp32>(from, count));
    });
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
