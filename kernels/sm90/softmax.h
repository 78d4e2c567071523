// Online softmax on the fragments of a warpgroup: scores become weights in place; row_max and sum are kept
// with the rows.
#pragma once

#include "kernels/bias.h"
#include "kernels/sm90/ptx/number.h"
#include "kernels/sm90/soft_cap.h"
#include "kernels/sm90/work.h"

namespace regard {

constexpr i32 fragments = block_k * element_bytes / 32;
using ForwardScores = float[block_k / 2];
using ForwardP = u32[fragments][4];  // pairs, or fours of 8-bit numbers, as the next product takes them

/// row_max is the maximum of a row's first tiles. It stays until a weight approaches the limit of its type
/// (448 for e4m3, 65504 for fp16; bf16 has none, but sums of products with a large V do); it then moves so
/// that this weight is 2^log2_p_at_max. 8-bit types leave headroom above it, so that few tiles move row_max,
/// and digits below it, of which e4m3 has fewer below 2^-6.
constexpr float log2_p_at_max = eight_bits ? 6 : 0;
constexpr float highest_p = eight_bits ? 432 : config::dtype == DType::fp16 ? 0x1p15f : 0x1p10f;

/// With batch_invariant a row takes the maximum of the first tile with keys that it sees, whatever the other
/// rows of its block see. Otherwise it takes those of all tiles down to the first that all of its rows see.
constexpr bool row_by_row = config::batch_invariant;

/// Sums up to here are safe to continue with: no product with V, and no sum of such products, overflows.
constexpr i32 most_power = 64;

/// Two rows of a thread, 8 apart. Weights are 2^(scale_log2 * score - row_max).
struct WarpgroupRowState {
  float row_max[2] = {-infinity, -infinity};  // -infinity: no key seen yet
  float sum[2] = {0, 0};                      // this thread's columns
  float largest[2] = {-infinity, -infinity};  // of this thread's scores, if row_max is a result
};

/// A thread's scores in a row are two of every 8 keys. One bit for each of the 32 scores from `first_score`
/// on whose key is before `end`, which counts from the thread's first key.
REGARD_DEVICE u32 scores_before(i32 end, i32 first_score) {
  const u32 keys = max(end, 0);
  return low_bits(static_cast<i32>(keys / 8 * 2 + min(keys % 8, 2u)) - first_score);
}

/// Sets scores that their row does not see to -infinity. Bits are moved to predicates eight at a time, which
/// is half the work of comparing keys; the tiles that use the most registers have no predicates for that,
/// and do it only with a soft cap, where it is less to compile.
REGARD_DEVICE void mask(ForwardScores& s, i32 first_key, const i32 (&rows)[2], const Window32& window) {
  constexpr bool by_bits = eight_bits || config::dv <= 192 || config::softcap;
  const i32 column = first_key + static_cast<i32>(threadIdx.x % 4) * 2;
#pragma unroll
  for (i32 half = 0; half < 2; ++half) {
    const Range32 keys = window.keys_of(rows[half]);
    const i32 begin = keys.begin - column, end = keys.end - column, sinks = window.sinks - column;
    u32 seen = 0;
#pragma unroll
    for (i32 i = 0; i < block_k / 4; ++i) {
      const i32 at = i / 2 * 8 + i % 2;
      float& score = s[i / 2 * 4 + 2 * half + i % 2];
      if constexpr (by_bits) {
        if (i % 32 == 0) {
          seen = scores_before(end, i);
          if (windowed && keys.begin > 0) seen &= ~scores_before(begin, i) | scores_before(sinks, i);
        }
        if ((seen >> i % 32 & 1) == 0) score = -infinity;
      } else if (at >= end || (windowed && at < begin && at >= sinks)) {
        score = -infinity;
      }
    }
  }
}

/// The same where what a row sees is known: `seen` has one bit for each of its scores.
REGARD_DEVICE void hide_unseen(ForwardScores& s, const u32 (&seen)[2]) {
#pragma unroll
  for (i32 i = 0; i < block_k / 2; ++i)
    if ((seen[i / 2 % 2] >> (i / 4 * 2 + i % 2) & 1) == 0) s[i] = -infinity;
}

/// The first `count` scores move to the end.
template <i32 count>
REGARD_DEVICE void rotate(ForwardScores& s) {
  float first[count];
#pragma unroll
  for (i32 i = 0; i < count; ++i) first[i] = s[i];
#pragma unroll
  for (i32 i = 0; i < block_k / 2; ++i)
    s[i] = i + count < block_k / 2 ? s[i + count] : first[i + count - block_k / 2];
}

/// Turns products of Q and K into scores, and scores into powers of two. A bias is added in between.
class ForwardScoreScale {
 public:
  /// `descale`: the factor of Q times that of K.
  REGARD_DEVICE ForwardScoreScale(const Arguments& a, float descale)
      : ForwardScoreScale(a.scale * descale, config::softcap ? a.softcap : 1.f) {}

  /// The factor from scores to powers of two, after `apply` and after a bias.
  REGARD_DEVICE float scale() const { return has_bias ? 1 : scale_before_bias(); }
  /// Between these two.
  REGARD_DEVICE float scale_before_bias() const { return config::softcap ? 1 : scale_; }

  /// Applies what comes before the mask.
  REGARD_DEVICE void apply(ForwardScores& s) const {
    if constexpr (config::softcap) {
      // Few tiles get here. The kernels with wide heads are the slowest to compile: there all scores rotate
      // through the first registers, which is less code.
      constexpr i32 count = block_k / 2, together = wide_heads ? 8 : count;
      static_assert(count % together == 0);
#pragma unroll 1
      for (i32 first = 0; first < count; first += together) {
#pragma unroll
        for (i32 i = 0; i < together; ++i) s[i] = soft_cap_(s[i]);
        if constexpr (together < count) rotate<together>(s);
      }
    } else if (eight_bits && before_mask_ != 1) {
#pragma unroll
      for (float& x : s) x *= before_mask_;
    }
  }

  /// Whether all scores of the warp are so far below their cap, as they nearly always are, that
  /// `apply_near_0` gives the same bits as `apply`: a row does not depend on its neighbours.
  REGARD_DEVICE bool all_near_0(const ForwardScores& s) const {
    float largest[2] = {};
#pragma unroll
    for (i32 i = 0; i < block_k / 2; ++i) largest[i % 2] = fmaxf(largest[i % 2], fabsf(s[i]));
    const float most = fmaxf(largest[0], largest[1]);
    return !__any_sync(whole_warp, !soft_cap_.is_near(most * most));
  }
  REGARD_DEVICE float apply_near_0(float product) const { return soft_cap_.near(product); }

 private:
  REGARD_DEVICE ForwardScoreScale(float natural, float cap)
      : soft_cap_(natural, cap), scale_(natural * log2_of_e), before_mask_(1) {
    // With a factor of 0 or less, which is possible with 8-bit types, the largest product is not the largest
    // score.
    if (eight_bits && !(natural > 0)) scale_ = log2_of_e, before_mask_ = natural;
  }

  SoftCap soft_cap_;
  float scale_, before_mask_;
};

/// A thread's sum of a row is kept in parts. None of its weights is larger than the largest part; 8-bit
/// types use more parts, so that they stay below highest_p if many weights are about 2^log2_p_at_max.
constexpr i32 parts_of_sum = eight_bits ? 4 : 2;

struct AsItIs {
  REGARD_DEVICE float operator()(float score, i32, i32) const { return score; }
};

/// Weights, and their sum per row: 2^(score * scale - row_max), where a score is score(product, half, i) of
/// the thread's i-th key of a row. row_max is rounded once for the whole row, so that its error is in the sum
/// too. Returns the largest part of the sums.
template <class Score>
REGARD_DEVICE float exponentials(ForwardScores& s, const float (&row_max)[2], float (&sum)[2], float scale,
                                 const Score& score) {
  float largest = 0;
#pragma unroll
  for (i32 half = 0; half < 2; ++half) {
    float part[parts_of_sum] = {};
#pragma unroll
    for (i32 i = 0; i < block_k / 4; ++i) {
      float& x = s[i / 2 * 4 + 2 * half + i % 2];
      x = exp2(fmaf(score(x, half, i), scale, -row_max[half]));
      part[i % parts_of_sum] += x;
    }
    sum[half] = 0;
#pragma unroll
    for (const float x : part) sum[half] += x, largest = fmaxf(largest, x);
  }
  return largest;
}

/// Exponentials are half of the work of a tile of d = 64; with wider heads, and with 8-bit types, branches
/// between them cost more than they save.
constexpr i32 slice = 32;  // keys
constexpr bool by_slices =
    windowed && !pack_gqa && !eight_bits && config::d <= 64 && block_q == 128 && block_k % slice == 0;

/// Weights and sums if no row of the warp sees keys from `seen` on: their weights are 0. The results have the
/// same bits as otherwise.
REGARD_DEVICE float exponentials(ForwardScores& s, const float (&row_max)[2], float (&sum)[2], float scale,
                                 i32 seen) {
  float part[2][2] = {};
#pragma unroll
  for (i32 first = 0; first < block_k; first += slice) {
    if (first < seen) {
#pragma unroll
      for (i32 half = 0; half < 2; ++half) {
#pragma unroll
        for (i32 i = first / 4; i < (first + slice) / 4; ++i) {
          float& x = s[i / 2 * 4 + 2 * half + i % 2];
          x = exp2(fmaf(x, scale, -row_max[half]));
          part[half][i % 2] += x;
        }
      }
    } else {
#pragma unroll
      for (i32 i = first / 2; i < (first + slice) / 2; ++i) s[i] = 0;
    }
  }
  sum[0] = part[0][0] + part[0][1];
  sum[1] = part[1][0] + part[1][1];
  return fmaxf(fmaxf(part[0][0], part[0][1]), fmaxf(part[1][0], part[1][1]));
}

/// This thread's maximum of each row.
REGARD_DEVICE void find_highest(const ForwardScores& s, float (&most)[2]) {
  most[0] = most[1] = -infinity;
#pragma unroll
  for (i32 i = 0; i < block_k / 2; ++i) most[i / 2 % 2] = fmaxf(most[i / 2 % 2], s[i]);
}

/// Raises `largest` to the scores of a tile, before anything is subtracted from them.
REGARD_DEVICE void raise_largest(WarpgroupRowState& rows, const ForwardScores& s) {
  float most[2];
  find_highest(s, most);
#pragma unroll
  for (i32 half = 0; half < 2; ++half) rows.largest[half] = fmaxf(rows.largest[half], most[half]);
}

/// Raises row_max to the maxima of the scores, or sets it where there is none (row_by_row). Returns `factor`,
/// by which the previous sums are rescaled, and the `row_max` to subtract from scaled scores. With
/// `safe_softmax`, for scores so large that the rounding of scale * maximum would matter, the maximum is
/// subtracted first and row_max is the raw score.
REGARD_DEVICE void update_row_max(ForwardScores& s, WarpgroupRowState& rows, float (&row_max)[2],
                                  float (&factor)[2], float scale, bool safe_softmax) {
  float most[2];
  find_highest(s, most);
#pragma unroll
  for (i32 half = 0; half < 2; ++half) {
    most[half] = quad_max(most[half]);
    const float before = rows.row_max[half],
                here = safe_softmax ? most[half] : most[half] * scale - log2_p_at_max;
    const bool stays = row_by_row && !safe_softmax && before != -infinity;
    const float now = stays ? before : fmaxf(before, here);
    row_max[half] = now == -infinity ? 0.f : now;
    factor[half] = exp2(safe_softmax ? (before - row_max[half]) * scale : before - row_max[half]);
    rows.row_max[half] = now;
  }
  if (safe_softmax) {
#pragma unroll
    for (i32 i = 0; i < block_k / 2; ++i) s[i] -= row_max[i / 2 % 2];
    row_max[0] = row_max[1] = -log2_p_at_max;
  }
}

/// Raises row_max of the rows that have reached highest_p to their maximum, and returns whether there are
/// any in the warp; `factor` is then what O has to be rescaled by.
REGARD_DEVICE bool rescale_large(ForwardScores& s, WarpgroupRowState& rows, float (&factor)[2]) {
  float most[2];
  find_highest(s, most);
  if (!__any_sync(whole_warp, fmaxf(most[0], most[1]) >= highest_p)) return false;
#pragma unroll
  for (i32 half = 0; half < 2; ++half) {
    const float highest = quad_max(most[half]), before = rows.row_max[half];
    factor[half] = 1;
    if (highest < highest_p) continue;
    rows.row_max[half] = before + (log2(highest) - log2_p_at_max);
    factor[half] = exp2(before - rows.row_max[half]);
    // A sum that has overflowed stays so, and the row is redone.
    rows.sum[half] = highest < to_the_power(most_power) ? rows.sum[half] * factor[half] : infinity;
#pragma unroll
    for (i32 i = 0; i < block_k / 4; ++i) s[i / 2 * 4 + 2 * half + i % 2] *= factor[half];
  }
  return true;
}

/// A product of 8-bit types needs four neighbours in a thread, which has two of each of two groups of 8: its
/// key p = 4 t + 2 g + j is here 8 g + 2 t + j. V is transposed into the same order (transposer.h).
REGARD_DEVICE void pack(ForwardP& p, const ForwardScores& s) {
#pragma unroll
  for (i32 i = 0; i < 4 * fragments; ++i) {
    if constexpr (eight_bits) {
      const i32 first = i / 4 * 16 + i % 4 / 2 * 8 + i % 2 * 2;
      p[i / 4][i % 4] = four_e4m3(s[first], s[first + 1], s[first + 4], s[first + 5]);
    } else {
      p[i / 4][i % 4] = pair<config::dtype>(s[2 * i], s[2 * i + 1]);
    }
  }
}

/// One bit for each quad in which some lane has its bit set.
REGARD_DEVICE u32 quads(u32 lanes) {
  lanes |= lanes >> 1;
  lanes = (lanes | lanes >> 2) & 0x11111111;
  lanes = (lanes | lanes >> 3) & 0x03030303;
  lanes = (lanes | lanes >> 6) & 0x000f000f;
  return (lanes | lanes >> 12) & 0xff;
}

/// Rows of the warp, one bit each, that have to be redone with `safe_softmax`: their sums are too large, or
/// one rounding of their row_max is more than 16.
REGARD_DEVICE u32 overflowed(const WarpgroupRowState& rows) {
  constexpr float largest_row_max = 1 << 28;
  bool mine[2];
#pragma unroll
  for (i32 half = 0; half < 2; ++half) {
    const float row_max = rows.row_max[half];
    mine[half] = !(rows.sum[half] < to_the_power(most_power)) ||
                 (row_max != -infinity && !(fabsf(row_max) < largest_row_max));
  }
  if (!__any_sync(whole_warp, mine[0] || mine[1])) return 0;
  return quads(__ballot_sync(whole_warp, mine[0])) | quads(__ballot_sync(whole_warp, mine[1])) << 8;
}

/// The results of a row from the sum of its weights: LSE, and the factor of O. The learned sink is one more
/// weight; if the keys are split, the merge of the parts adds it.
struct RowEnd {
  float lse, scale;

  REGARD_DEVICE RowEnd(float row_max, float sum, i32 head, const Arguments& a) {
    float kept = 1;
    if (!split_kv && a.sink != nullptr) {
      const float sink = a.sink[head] * log2_of_e, most = fmaxf(row_max, sink);
      const float safe = most == -infinity ? 0.f : most;
      kept = exp2(row_max - safe);
      sum = sum * kept + exp2(sink - safe);
      row_max = most;
    }
    scale = sum == 0 ? 0.f : kept * reciprocal(sum);
    lse = sum == 0 ? -infinity : ln_2 * (row_max + log2(sum));
  }
};

/// The row_max of a problem, from this thread's largest scores; by whole quads. It is NaN where the LSE is,
/// as a maximum ignores NaN. `scale_log2`: from scores to powers of two.
REGARD_DEVICE float row_max_of(float largest, float lse, float scale_log2) {
  largest = quad_max(largest);
  return lse == lse ? largest * (scale_log2 * ln_2) : lse;
}

}  // namespace regard
