// What happens to a tile of scores between the product and the softmax, except the mask: scale, soft cap,
// bias. This is the only place where scores are changed.
#pragma once

#include "kernels/bias.h"
#include "kernels/head.h"
#include "kernels/portable/element.h"
#include "kernels/portable/score_tile.h"
#include "kernels/tanh.h"

namespace regard {

/// Whether more than a factor and a mask comes between Q K^T and the softmax.
constexpr bool changes_scores = config::softcap || has_bias;

/// The factor of a whole head of a tensor.
template <DType dtype>
REGARD_DEVICE float descale(const Head& head, const Rows& factors) {
  if constexpr (bytes_of<dtype> > 1) return 1.0f;
  return factor_of(factors, head.batch, head.kv_head);
}
/// That of K or V, unless each key has one.
REGARD_DEVICE float descale_keys(const Head& head, const Rows& factors) {
  const bool apart = config::descale == Descale::token || config::descale == Descale::columns;
  return apart ? 1.0f : descale<config::kv>(head, factors);
}

/// Where the factor of Q K^T is applied. The softmax applies a positive factor at no cost (the largest score
/// is then the largest product); if scores are changed it is applied earlier. The softmax also multiplies a
/// soft cap's tanh by the cap, unless a bias is added to it.
struct PortableScoreScale {
  float before;
  float natural;  // from scores in that form to natural logarithms
  float log2;     // and to base-2 logarithms

  REGARD_DEVICE explicit PortableScoreScale(const Head& head) {
    const Arguments& a = head.arguments;
    const float scale = a.scale * descale<config::dtype>(head, a.descale_q) * descale_keys(head, a.descale_k);
    const bool late = !changes_scores && scale > 0;
    natural = config::softcap && !has_bias ? a.softcap : late ? scale : 1.0f;
    before = late ? 1.0f : config::softcap ? scale / a.softcap : scale;
    log2 = natural * log2_of_e;
  }
};

/// What is added to the scores of a block of rows of one head.
struct ScoreBias {
  const u8* rows;  // elementwise, of the first row
  i64 pitch;       // bytes from one row to the next
  i32 last_row;
  i32 keys;
  i32 diagonal;  // the key at which the first row's distance is 0
  float slope;

  ScoreBias() = default;
  REGARD_DEVICE ScoreBias(const Head& head, i32 first_row)
      : rows(elementwise_bias ? head.address<config::bias_type>(head.arguments.bias, head.head, first_row)
                              : nullptr),
        pitch(head.arguments.bias.row * bytes_of<config::bias_type>),
        last_row(static_cast<i32>(smaller<i64>(head.sequence.sq - first_row, block_q)) - 1),
        keys(static_cast<i32>(head.sequence.sk)),
        diagonal(first_row + static_cast<i32>(head.sequence.bottom_right())),
        slope(alibi ? head.alibi_slope() : 0.0f) {}

  /// ALiBi: the slope times how far a row of the tile is past a key.
  REGARD_DEVICE float slope_to(i32 row, i32 key) const {
    return slope * static_cast<float>(diagonal + row - key);
  }

  /// The elementwise bias of a row of the tile; 0 past the last key. Rows past the last one repeat it.
  REGARD_DEVICE float at(i32 row, i32 key) const {
    const u8* from = rows + smaller(row, last_row) * pitch;
    return key < keys ? load_element<config::bias_type>(from, key) : 0.0f;
  }
};

/// ALiBi: -slope * distance. A known sign saves an instruction.
template <bool rises>
REGARD_DEVICE void add_alibi(Scores& s, const ScoreBias& bias, i32 first_row, i32 first_key) {
  each_row([&](i32 m, i32 half) {
    const float to_first = bias.slope_to(first_row + row_offset(m, half), first_key);
#pragma unroll
    for (i32 n = 0; n < key_tiles; ++n) {
#pragma unroll
      for (i32 i = 0; i < Fragment::width; ++i) {
        const float amount = fabsf(fmaf(
            -bias.slope, static_cast<float>(n * Fragment::columns + Fragment::column_offset(i)), to_first));
        s[m][n].x[half][i] += rises ? amount : -amount;
      }
    }
  });
}

template <class Function>
REGARD_DEVICE void each_score(Scores& s, Function function) {
  each_row([&](i32 m, i32 half) {
#pragma unroll
    for (i32 n = 0; n < key_tiles; ++n)
#pragma unroll
      for (float& x : s[m][n].x[half]) function(x);
  });
}

/// each_score for rare cases, in less code: key tiles rotate through the first registers. With dropout too,
/// which is hardly ever combined with a soft cap, the code is smallest: such kernels take longest to
/// compile.
template <class Function>
REGARD_DEVICE void each_score_rotated(Scores& s, Function function) {
  constexpr i32 together = config::dropout || key_tiles < 4 ? 1
                           : key_tiles % 4 == 0             ? key_tiles / 4
                                                            : key_tiles;
#pragma unroll 1
  for (i32 done = 0; done < key_tiles; done += together) {
#pragma unroll
    for (i32 m = 0; m < row_tiles; ++m) {
      Fragment first[together];
#pragma unroll
      for (i32 n = 0; n < key_tiles; ++n) {
        if (n < together) {
          first[n] = s[m][n];
#pragma unroll
          for (i32 half = 0; half < Fragment::halves; ++half)
#pragma unroll
            for (float& x : first[n].x[half]) function(x);
        }
        s[m][n] = n + together < key_tiles ? s[m][n + together] : first[n + together - key_tiles];
      }
    }
  }
}

/// tanh(scale * x), in few instructions if no score of the wave comes near its cap.
REGARD_DEVICE void cap(Scores& s, float scale) {
  float largest = 0;
  each_score(s, [&](float& x) {
    x *= scale;
    largest = fmaxf(largest, fabsf(x));
  });
  if (any_in_wave(largest >= tanh_near_0_end))
    each_score_rotated(s, [](float& x) { x = tanh(x); });
  else
    each_score(s, [](float& x) { x = tanh_near_0(x); });
}

/// scale * x + bias, if there is one; `key` is the first of the wave.
REGARD_DEVICE void add_bias(Scores& s, const ScoreBias& bias, i32 key, float scale) {
  const i32 first_row = row_in_tile(), first_key = key + Fragment::column();
  each_row([&](i32 m, i32 half) {
    const i32 row = first_row + row_offset(m, half);
#pragma unroll
    for (i32 n = 0; n < key_tiles; ++n) {
#pragma unroll
      for (i32 i = 0; i < Fragment::width; ++i) {
        float& x = s[m][n].x[half][i];
        x *= scale;
        if constexpr (elementwise_bias)
          x += bias.at(row, first_key + n * Fragment::columns + Fragment::column_offset(i));
      }
    }
  });
  if constexpr (alibi) {
    if (bias.slope < 0)
      add_alibi<true>(s, bias, first_row, first_key);
    else
      add_alibi<false>(s, bias, first_row, first_key);
  }
}

/// The only place where scores are changed. `softcap` is the value in the arguments.
REGARD_DEVICE void change_scores(Scores& s, const ScoreBias& bias, i32 key, float scale, float softcap) {
  if constexpr (config::softcap) cap(s, scale);
  if constexpr (has_bias || !config::softcap) add_bias(s, bias, key, config::softcap ? softcap : scale);
}

}  // namespace regard
