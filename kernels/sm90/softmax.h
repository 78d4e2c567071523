// Online softmax on the fragments of a warpgroup: scores become weights in place, sums and the reference of
// the exponentials stay with the rows.
#pragma once

#include "kernels/sm90/ptx/number.h"
#include "kernels/sm90/work.h"

namespace regard {

constexpr i32 fragments = block_k / 16;
using Scores = float[block_k / 2];
using Weights = u32[fragments][4];  // pairs, as the next product takes them

/// Two rows of a thread, 8 apart. Weights are 2^(scale_log2 * score - reference).
struct RowState {
  float reference[2] = {-infinity, -infinity};  // -infinity: no key seen yet
  float sum[2] = {0, 0};                        // this thread's columns
};

/// Scores that their row does not see become -infinity.
REGARD_DEVICE void mask(Scores& s, i32 first_key, i32 row, const Sight& sight) {
  const i32 column = first_key + static_cast<i32>(threadIdx.x % 4) * 2;
#pragma unroll
  for (i32 half = 0; half < 2; ++half) {
    const Visible keys = sight.of(row + 8 * half);
    const i32 first = keys.first - column, last = keys.last - column;
#pragma unroll
    for (i32 i = 0; i < block_k / 4; ++i) {
      const i32 at = i / 2 * 8 + i % 2;
      if (at >= last || (windowed && at < first)) s[i / 2 * 4 + 2 * half + i % 2] = -infinity;
    }
  }
}

/// Weights, and their sum per row: 2^((s - raw) * scale - scaled). One rounding of a reference serves the
/// whole row: what it is off by is in the sum too.
REGARD_DEVICE void exponentials(Scores& s, const float (&raw)[2], const float (&scaled)[2], float (&sum)[2],
                                float scale) {
#pragma unroll
  for (i32 half = 0; half < 2; ++half) {
    float part[2] = {0, 0};
#pragma unroll
    for (i32 i = 0; i < block_k / 4; ++i) {
      float& x = s[i / 2 * 4 + 2 * half + i % 2];
      x = exp2(fmaf(x - raw[half], scale, -scaled[half]));
      part[i % 2] += x;
    }
    sum[half] = part[0] + part[1];
  }
}

/// Against the true maximum; gives the factor of what was summed before. With `careful`, for scores so large
/// that the rounding of scale * maximum would matter, the maximum is taken off first and the reference is the
/// raw score.
REGARD_DEVICE void softmax_exact(Scores& s, RowState& rows, float (&factor)[2], float scale, bool careful) {
  float raw[2], scaled[2], sum[2];
#pragma unroll
  for (i32 half = 0; half < 2; ++half) {
    float most = -infinity;
#pragma unroll
    for (i32 i = 0; i < block_k / 8; ++i)
      most = fmaxf(most, fmaxf(s[4 * i + 2 * half], s[4 * i + 2 * half + 1]));
    most = quad_max(most);
    const float before = rows.reference[half], now = fmaxf(before, careful ? most : most * scale);
    const float safe = now == -infinity ? 0.f : now;
    raw[half] = careful ? safe : 0.f;
    scaled[half] = careful ? 0.f : safe;
    factor[half] = exp2(careful ? (before - safe) * scale : before - safe);
    rows.reference[half] = now;
  }
  exponentials(s, raw, scaled, sum, scale);
#pragma unroll
  for (i32 half = 0; half < 2; ++half) rows.sum[half] = rows.sum[half] * factor[half] + sum[half];
}

/// Against the reference as it is: the maximum of this tile is not waited for.
REGARD_DEVICE void softmax_stale(Scores& s, RowState& rows, float scale) {
  const float none[2] = {0, 0};
  float sum[2];
  exponentials(s, none, rows.reference, sum, scale);
  rows.sum[0] += sum[0];
  rows.sum[1] += sum[1];
}

REGARD_DEVICE void pack(Weights& weights, const Scores& s) {
#pragma unroll
  for (i32 i = 0; i < block_k / 4; ++i) weights[i / 4][i % 4] = pair(s[2 * i], s[2 * i + 1]);
}

/// Moves the reference up to the power of two below the highest weight of the last tile: exact, from packed
/// pairs, in the shadow of the next products. Gives the factor of everything summed so far: infinity where
/// sums of such weights could overflow, which `overflowed` finds at the end.
REGARD_DEVICE void follow(const Weights& weights, RowState& rows, float (&factor)[2]) {
#pragma unroll
  for (i32 half = 0; half < 2; ++half) {
    u32 most = weights[0][half];
#pragma unroll
    for (i32 i = 1; i < 2 * fragments; ++i) most = max_pair(most, weights[i / 2][i % 2 * 2 + half]);
    const i32 exponent = static_cast<i32>(__float_as_uint(quad_max(highest(most))) >> 23) - 127;
    const i32 above = max(exponent, 0);
    factor[half] = above > 90 ? infinity : __uint_as_float(static_cast<u32>(127 - above) << 23);
    rows.reference[half] += static_cast<float>(above);
    rows.sum[half] *= factor[half];
  }
}

/// Rows of the warp, a bit each, that have to be done again with `careful`: their sums are not finite, or one
/// rounding of their reference is more than 16.
REGARD_DEVICE u32 overflowed(const RowState& rows) {
  constexpr float most_reference = 1 << 28;
  u32 bad = 0;
#pragma unroll
  for (i32 half = 0; half < 2; ++half) {
    const float reference = rows.reference[half];
    const bool mine =
        !(rows.sum[half] < infinity) || (reference != -infinity && !(fabsf(reference) < most_reference));
    const u32 threads = __ballot_sync(whole_warp, mine);
#pragma unroll
    for (u32 row = 0; row < 8; ++row) bad |= (threads >> 4 * row & 15) != 0 ? 1u << (row + 8 * half) : 0;
  }
  return bad;
}

}  // namespace regard
