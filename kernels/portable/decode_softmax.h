// Online softmax of a wave of decode.cu on its own keys.
#pragma once

#include "kernels/portable/decode_tile.h"
#include "kernels/portable/softmax_end.h"

namespace regard {

/// Weights are 2^((score - row_max) * scale_log2). row_max follows the largest score only where weights would
/// exceed 2^headroom, so that most keys exchange no maximum; a sum covers this thread's keys.
class DecodeSoftmax {
  static constexpr float headroom = 8;  // fp16 holds weights below 2^16

 public:
  float row_max[2] = {-infinity, -infinity}, sum[2] = {};
  float largest[2] = {-infinity, -infinity};  // of this thread's scores; row_max may be less

  REGARD_DEVICE explicit DecodeSoftmax(float scale_log2) : scale_log2_(scale_log2) {}

  /// Scores become weights as the left operand of P V; rescales `o` if a row_max rises.
  REGARD_DEVICE void make_p(Left (&p)[groups], Scores& s, DecodeOutput& o) {
    float most[2];
    bool beyond = false;
#pragma unroll
    for (i32 half = 0; half < 2; ++half) {
      most[half] = -infinity;
#pragma unroll
      for (i32 n = 0; n < key_tiles; ++n)
        most[half] = fmaxf(most[half], fmaxf(s[0][n].x[half][0], s[0][n].x[half][1]));
      beyond |= most[half] > limit_[half];
      if constexpr (config::row_max) largest[half] = fmaxf(largest[half], most[half]);
    }
    if (any_in_wave(beyond)) raise(most, o);
#pragma unroll
    for (i32 half = 0; half < 2; ++half) {
      const float base = finite(row_max[half]);
#pragma unroll
      for (i32 n = 0; n < key_tiles; ++n) {
        // The difference first: products of large scores would be rounded.
        const float x = exp2((s[0][n].x[half][0] - base) * scale_log2_),
                    y = exp2((s[0][n].x[half][1] - base) * scale_log2_);
        sum[half] += x + y;
        p[n / 2][n % 2 * 2 + half] = pair<multiplied>(x, y);
      }
    }
  }

 private:
  REGARD_DEVICE void raise(const float (&most)[2], DecodeOutput& o) {
#pragma unroll
    for (i32 half = 0; half < 2; ++half) {
      const float before = row_max[half], now = fmaxf(reduce_max(most[half]), before);
      const float factor = exp2((before - finite(now)) * scale_log2_);
      row_max[half] = now;
      limit_[half] = now + headroom / scale_log2_;
      sum[half] *= factor;
#pragma unroll
      for (i32 c = 0; c < reads; ++c)
#pragma unroll
        for (i32 i = 0; i < numbers_of_v; ++i) o[c][i].x[half][0] *= factor, o[c][i].x[half][1] *= factor;
    }
  }

  float scale_log2_;
  float limit_[2] = {-infinity, -infinity};
};

}  // namespace regard
