// Online softmax on the fragments of a wave: scores become weights in place; row_max and sum are kept with
// the rows.
#pragma once

#include "kernels/portable/softmax_end.h"
#include "kernels/portable/tile.h"

namespace regard {

/// Weights are 2^(score * scale_log2 - scaled(row_max) + p_exponent). A sum covers this thread's columns.
///
/// row_max is the maximum of the first tile with keys that its row sees, and normally stays: most tiles do
/// not compute a maximum. When sums of weights reach highest_p, the tile's maximum replaces it, and the sums
/// so far are rescaled. The result of a row depends on its own scores alone.
struct WaveRowState {
  RowNumbers row_max, sum;  // -infinity: no key seen yet
  RowNumbers largest;       // of this thread's scores, if row_max is a result; the one above may be less
  bool settled = false;     // every row of the waves that decide together has a row_max, and none is huge

  REGARD_DEVICE WaveRowState() {
    each_row([&](i32 m, i32 half) {
      row_max[m][half] = -infinity;
      sum[m][half] = 0;
      if constexpr (config::row_max) largest[m][half] = -infinity;
    });
  }
};

/// fp16 overflows at 2^16; products with V in bf16, and sums of them, at 2^128.
constexpr float highest_p = operand == DType::fp16 ? 0x1p15f : 0x1p10f;
/// Beyond this, one rounding of score * scale_log2 is more than 8: there row_max is subtracted from the
/// scores before they are scaled.
constexpr float largest_row_max = 1 << 28;

REGARD_DEVICE bool is_huge(float scaled) {
  return !(fabsf(scaled) < largest_row_max);
}

/// This thread's rows, one bit each.
REGARD_DEVICE u32 row_bit(i32 m, i32 half) {
  return 1u << (m * Fragment::halves + half);
}

/// The largest of this thread's scores of a row.
REGARD_DEVICE float largest_of(const Scores& s, i32 m, i32 half) {
  float x = -infinity;
#pragma unroll
  for (i32 n = 0; n < key_tiles; ++n)
#pragma unroll
    for (i32 i = 0; i < Fragment::width; i += 2)
      x = fmaxf(x, fmaxf(s[m][n].x[half][i], s[m][n].x[half][i + 1]));
  return x;
}

REGARD_DEVICE void raise_largest(WaveRowState& rows, const Scores& s) {
  each_row(
      [&](i32 m, i32 half) { rows.largest[m][half] = fmaxf(rows.largest[m][half], largest_of(s, m, half)); });
}

/// The maximum of each row's scores, and a bit for each row whose weights are too `large`, over all waves
/// that share rows: they exchange them in `scratch`, synchronizing the whole block.
struct RowMaxima {
  RowNumbers most;
  u32 large;

  REGARD_DEVICE RowMaxima(const Scores& s, u32 large_of_thread, float2* scratch)
      : large(reduce_or(large_of_thread)) {
    each_row([&](i32 m, i32 half) { most[m][half] = reduce_max(largest_of(s, m, half)); });
    if constexpr (across > 1) join(scratch);
  }

 private:
  REGARD_DEVICE void join(float2* scratch) {
    float2* const own = scratch + row_in_tile();
    each_row([&](i32 m, i32 half) {
      if (Fragment::first_of_row())
        own[row_offset(m, half) + part_of_wave() * block_q] = {most[m][half],
                                                               (large & row_bit(m, half)) != 0 ? 1.0f : 0.0f};
    });
    sync_block();
    each_row([&](i32 m, i32 half) {
#pragma unroll
      for (i32 part = 0; part < across; ++part) {
        const float2 row = own[row_offset(m, half) + part * block_q];
        most[m][half] = fmaxf(most[m][half], row.x);
        if (row.y != 0) large |= row_bit(m, half);
      }
    });
  }
};

/// Sets row_max of rows that have none, and raises it for rows whose weights are too large. Rescales their
/// sums; `factor` is what O has to be rescaled by.
REGARD_DEVICE void update_row_max(const RowMaxima& maxima, WaveRowState& rows, float scale_log2,
                                  RowNumbers& factor) {
  bool settled = true;
  each_row([&](i32 m, i32 half) {
    const float before = rows.row_max[m][half];
    const bool rescales = before == -infinity || (maxima.large & row_bit(m, half)) != 0;
    const float row_max = rescales ? fmaxf(maxima.most[m][half], before) : before;
    // The factor uses the new row_max as rounded for the weights. The old one may be multiplied and
    // subtracted in one instruction, unrounded; the factor is then off by that rounding, which is as small
    // as that of a score.
    const float now = finite(row_max), scaled = now * scale_log2;
    factor[m][half] =
        !rescales ? 1.0f : exp2(is_huge(scaled) ? (before - now) * scale_log2 : before * scale_log2 - scaled);
    rows.row_max[m][half] = row_max;
    rows.sum[m][half] *= factor[m][half];
    settled &= row_max != -infinity && !is_huge(scaled);
  });
  rows.settled = !any_together(!settled);
}

/// Subtracts a huge row_max from the scores of its row; it counts as 0 from then on.
REGARD_DEVICE void subtract_huge_row_max(Scores& s, const WaveRowState& rows, float scale_log2) {
  each_row([&](i32 m, i32 half) {
    const float row_max = finite(rows.row_max[m][half]);
    const float taken = is_huge(row_max * scale_log2) ? row_max : 0.0f;
#pragma unroll
    for (i32 n = 0; n < key_tiles; ++n)
#pragma unroll
      for (i32 i = 0; i < Fragment::width; ++i) s[m][n].x[half][i] -= taken;
  });
}

/// Scores become weights, and `sum` the sum of this thread's weights. Returns the rows whose weights have
/// reached highest_p.
REGARD_DEVICE u32 make_p(Scores& s, const WaveRowState& rows, float scale_log2, RowNumbers& sum) {
  if (!rows.settled) subtract_huge_row_max(s, rows, scale_log2);
  u32 large = 0;
  each_row([&](i32 m, i32 half) {
    const float scaled = finite(rows.row_max[m][half]) * scale_log2;
    float offset = is_huge(scaled) ? 0.0f : -scaled;
    if constexpr (p_exponent != 0) offset += p_exponent;
    float part[2] = {};
#pragma unroll
    for (i32 n = 0; n < key_tiles; ++n)
#pragma unroll
      for (i32 i = 0; i < Fragment::width; i += 2) {
        float both[2] = {s[m][n].x[half][i], s[m][n].x[half][i + 1]};
        multiply_add_pair(both, scale_log2, offset);
        both[0] = exp2(both[0]), both[1] = exp2(both[1]);
        s[m][n].x[half][i] = both[0], s[m][n].x[half][i + 1] = both[1];
        add_pair(part, both);
      }
    sum[m][half] = part[0] + part[1];
    // No weight is larger than the part of the sum that contains it.
    if (!(fmaxf(part[0], part[1]) < highest_p)) large |= row_bit(m, half);
  });
  return large;
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

}  // namespace regard
