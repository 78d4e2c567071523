// From scores to P = exp(S - LSE), and from dP to dS = P (dP - D), in registers; both go to shared memory as
// operands.
#pragma once

#include "kernels/portable/backward_tile.h"
#include "kernels/portable/dropout.h"
#include "kernels/portable/mask.h"
#include "kernels/portable/scores.h"

namespace regard {

/// The columns of S, P and dS that a thread has, from the first key of its wave on.
using ScoreColumns = Multiply::B<RowsD, key_tiles>::Columns;

/// The slope of a soft cap at each score; nothing without one.
using Slopes = Scores;

template <class Function>
REGARD_DEVICE void each_of_scores(Function function) {
  each_row([&](i32 m, i32 half) {
#pragma unroll
    for (i32 n = 0; n < key_tiles; ++n)
#pragma unroll
      for (i32 i = 0; i < Fragment::width; ++i) function(m, n, half, i);
  });
}

/// tanh(scale x) and its slope; computed as 1 - tanh^2, the slope would lose all digits where tanh is near
/// 1.
REGARD_DEVICE void cap(Scores& s, Scores& slopes, float scale) {
  each_of_scores([&](i32 m, i32 n, i32 half, i32 i) {
    float &x = s[m][n].x[half][i], &slope = slopes[m][n].x[half][i];
    x *= scale;
    const float e = exp2(fabsf(x) * (-2 * log2_of_e)), inverse = reciprocal(1 + e);
    const float near = tanh_near_0(x), far = (1 - e) * inverse;
    const bool is_near = fabsf(x) < tanh_near_0_end;
    slope = is_near ? fmaf(-near, near, 1.0f) : 4 * e * inverse * inverse;
    x = is_near ? near : x < 0 ? -far : far;
  });
}

REGARD_DEVICE void change_scores(Scores& s, Slopes& slopes, const ScoreBias& bias, i32 key,
                                 const PortableScoreScale& scale, float softcap) {
  if constexpr (config::softcap) {
    cap(s, slopes, scale.before);
    if constexpr (has_bias) add_bias(s, bias, key, softcap);
  } else {
    if (changes_scores || scale.before != 1.0f) add_bias(s, bias, key, scale.before);
  }
}

/// One number for each of this thread's rows, from shared memory.
REGARD_DEVICE void load_rows(RowNumbers& x, u32 numbers) {
  numbers += static_cast<u32>(row_in_tile() * 4);
  each_row([&](i32 m, i32 half) { load_shared(x[m][half], numbers + row_offset(m, half) * 4); });
}

/// The smallest numbers of fp16 are not small next to a weight of a row that sees many keys, nor next to a
/// gradient that is multiplied by a large scale.
constexpr bool scales_operands = operand == DType::fp16;
constexpr float p_exponent = p_exponent_of(operand), p_scale = 1.0f / (1 << p_exponent_of(operand));

/// P times 2^p_exponent, and at most that, however LSE was rounded.
REGARD_DEVICE void make_p(Scores& s, const RowNumbers& lse_log2, float scale_log2) {
  each_of_scores([&](i32 m, i32 n, i32 half, i32 i) {
    float& x = s[m][n].x[half][i];
    x = exp2(at_most(fmaf(x, scale_log2, -lse_log2[m][half]), p_exponent));
  });
}

/// P is not negative: weights that dropout drops are marked by their sign.
struct SignedP {
  Scores& p;

  REGARD_DEVICE void keep(i32 m, i32 half, i32 eight, i32 pair, u32 kept) const {
#pragma unroll
    for (i32 i = 0; i < 4; ++i) {
      float& x = number_of(p, m, half, eight + i / 2, pair, i % 2);
      x = bits_as<float>(bits_as<u32>(x) | (~(kept << (24 - 8 * i)) & 0x80000000u));
    }
  }
};

/// dS replaces dP: P, as it is, times `factor` (dP - D). `keep_scale`: dropout's factor.
REGARD_DEVICE void make_grad_s(Scores& grad, const Scores& p, RowNumbers& delta, float keep_scale,
                               float factor) {
  if constexpr (scales_operands) {
    each_row([&](i32 m, i32 half) { delta[m][half] *= factor; });
    keep_scale *= factor;
  }
  each_of_scores([&](i32 m, i32 n, i32 half, i32 i) {
    float& x = grad[m][n].x[half][i];
    const float weight = p[m][n].x[half][i], of_row = delta[m][half];
    if constexpr (config::dropout)
      x = weight * (bits_as<i32>(weight) < 0 ? of_row : fmaf(x, keep_scale, -of_row));
    else if constexpr (scales_operands)
      x = weight * fmaf(x, factor, -of_row);
    else
      x = weight * (x - of_row);
  });
}

template <i32 tiles_m, i32 tiles_n>
REGARD_DEVICE void scale_all(Fragment (&of)[tiles_m][tiles_n], float factor) {
#pragma unroll
  for (i32 m = 0; m < tiles_m; ++m)
#pragma unroll
    for (i32 n = 0; n < tiles_n; ++n)
#pragma unroll
      for (i32 half = 0; half < Fragment::halves; ++half)
#pragma unroll
        for (float& x : of[m][n].x[half]) x *= factor;
}

/// If a number of the block's tile of dS is too large for fp16, takes ds_scale_of_subnormals out of all.
/// Returns whether it did.
REGARD_DEVICE bool scale_back(Scores& grad) {
  if constexpr (operand != DType::fp16 || !target::flushes_subnormals) return false;
  constexpr float most = 65504;
  float largest = 0;
  each_of_scores(
      [&](i32 m, i32 n, i32 half, i32 i) { largest = fmaxf(largest, fabsf(grad[m][n].x[half][i])); });
  const bool large = any_in_block(largest > most);
  if (large) scale_all(grad, 1 / ds_scale_of_subnormals());
  return large;
}

/// Stores to the tile of all waves, in rows of queries. `rectified`: weights that dropout drops are 0.
template <bool rectified>
REGARD_DEVICE void store_operand(u32 to, const Scores& s) {
  constexpr i32 row_bytes = layout.row_of_p, part_bytes = wave_keys * operand_bytes;
  static_assert(!swizzled<row_bytes> || part_bytes % portable::ForwardLayout::line == 0 ||
                power_of_two_in(part_bytes) == part_bytes);
  const i32 byte = part_of_wave() * part_bytes + Fragment::column() * operand_bytes;
  to += shared_offset<row_bytes>(Fragment::row(), byte) + static_cast<u32>(row_of_wave() * row_bytes);
  each_row([&](i32 m, i32 half) {
    ScoreColumns::each_run(s[m], half, [&](i32 offset, const float(&x)[ScoreColumns::run]) {
      float numbers[ScoreColumns::run];
#pragma unroll
      for (i32 i = 0; i < ScoreColumns::run; ++i) numbers[i] = rectified ? fmaxf(x[i], 0.0f) : x[i];
      store_numbers<operand>(along<row_bytes>(to, offset * operand_bytes) + row_offset(m, half) * row_bytes,
                             numbers);
    });
  });
}

}  // namespace regard
