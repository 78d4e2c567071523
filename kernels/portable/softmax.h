// Online softmax on the fragments of a wave: scores become weights in place, sums and the reference of the
// exponentials stay with the rows.
#pragma once

#include "kernels/portable/tile.h"

namespace regard {

/// Weights are 2^(score * unit - scaled(reference)). A sum is that of this thread's columns.
struct RowState {
  RowNumbers reference, sum;  // -infinity: no key seen yet

  REGARD_DEVICE RowState() {
    each_row([&](i32 m, i32 half) {
      reference[m][half] = -infinity;
      sum[m][half] = 0;
    });
  }
};

/// Weights of 2^8 are no harm: as long as none is above, the reference may stay where it is, and with it all
/// that was summed up.
constexpr float largest_exponent = 8;
/// Beyond, one rounding of score * unit is more than 8: there the difference of scores is taken first.
constexpr float largest_reference = 1 << 28;

/// The reference as scores are measured from it: anything will do for a row that has seen no key yet.
REGARD_DEVICE float finite(float reference) {
  return reference == -infinity ? 0.0f : reference;
}
REGARD_DEVICE bool is_huge(float scaled) {
  return !(fabsf(scaled) < largest_reference);
}

/// Raises the references; `factor` is that of what a row has summed up so far. Returns whether any row of the
/// wave has one other than 1.
REGARD_DEVICE bool raise_references(const Scores& s, RowState& rows, float unit, RowNumbers& factor) {
  bool changed = false;
  each_row([&](i32 m, i32 half) {
    float most = -infinity;
#pragma unroll
    for (i32 n = 0; n < key_tiles; ++n) most = fmaxf(most, fmaxf(s[m][n].x[half][0], s[m][n].x[half][1]));
    most = row_max(most);
    const float before = rows.reference[m][half];
    const bool rises = !((most - before) * unit <= largest_exponent);  // or is NaN
    const float reference = rises ? fmaxf(most, before) : before;
    // Of the new reference as the weights round it. The old one may be multiplied and subtracted in one
    // instruction, unrounded, and the factor is then off by that rounding: as little as a score is.
    const float now = finite(reference), scaled = now * unit;
    factor[m][half] = !rises ? 1.0f : exp2(is_huge(scaled) ? (before - now) * unit : before * unit - scaled);
    rows.reference[m][half] = reference;
    changed |= rises;
  });
  return any_in_wave(changed);
}

/// Scores of rows with a huge reference are measured from it: behind, it counts as 0.
REGARD_DEVICE void subtract_huge_references(Scores& s, const RowState& rows, float unit) {
  bool huge = false;
  each_row([&](i32 m, i32 half) { huge |= is_huge(finite(rows.reference[m][half]) * unit); });
  if (!any_in_wave(huge)) return;
  each_row([&](i32 m, i32 half) {
    const float reference = finite(rows.reference[m][half]);
    const float taken = is_huge(reference * unit) ? reference : 0.0f;
#pragma unroll
    for (i32 n = 0; n < key_tiles; ++n)
#pragma unroll
      for (i32 i = 0; i < Fragment::width; ++i) s[m][n].x[half][i] -= taken;
  });
}

/// Scores become weights; see raise_references for the rest.
REGARD_DEVICE bool softmax(Scores& s, RowState& rows, float unit, RowNumbers& factor) {
  const bool changed = raise_references(s, rows, unit, factor);
  subtract_huge_references(s, rows, unit);
  each_row([&](i32 m, i32 half) {
    const float scaled = finite(rows.reference[m][half]) * unit, offset = is_huge(scaled) ? 0.0f : -scaled;
    float sum[Fragment::width] = {};
#pragma unroll
    for (i32 n = 0; n < key_tiles; ++n)
#pragma unroll
      for (i32 i = 0; i < Fragment::width; ++i)
        sum[i] += s[m][n].x[half][i] = exp2(fmaf(s[m][n].x[half][i], unit, offset));
    rows.sum[m][half] = rows.sum[m][half] * factor[m][half] + (sum[0] + sum[1]);
  });
  return changed;
}

REGARD_DEVICE void rescale(Output& o, const RowNumbers& factor) {
#pragma unroll
  for (i32 m = 0; m < row_tiles; ++m)
#pragma unroll
    for (i32 c = 0; c < column_tiles; ++c)
#pragma unroll
      for (i32 half = 0; half < Fragment::halves; ++half)
#pragma unroll
        for (i32 i = 0; i < Fragment::width; ++i) o[m][c].x[half][i] *= factor[m][half];
}

struct SoftmaxEnd {
  float inverse;  // 1 / sum, 0 for a row that sees no key
  float lse;      // natural logarithm; -infinity for a row that sees neither key nor sink
};

/// `natural`: from the reference to natural units, in which it is finite wherever a score is. The learned
/// sink, -infinity without one, joins here: a key with no value.
REGARD_DEVICE SoftmaxEnd end_softmax(float reference, float sum, float natural, float sink) {
  const bool seen = reference != -infinity;
  const float top = seen ? reference * natural : -infinity, highest = fmaxf(top, sink);
  const float weight = seen ? exp2((top - highest) * log2_of_e) : 0.0f;
  const float total = sum * weight + exp2((sink - finite(highest)) * log2_of_e);
  return {seen ? weight * reciprocal(total) : 0.0f, highest + logf(total)};
}

}  // namespace regard
