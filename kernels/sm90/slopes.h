// ALiBi: what is added to the scores of a thread's two rows, the slope times the distance from the diagonal.
#pragma once

#include "kernels/bias.h"
#include "kernels/sm90/softmax.h"

namespace regard {

class Slopes {
  enum class Side { left, right, both };

 public:
  Slopes() = default;
  /// `diagonal`: for each row, the key at distance 0.
  REGARD_DEVICE Slopes(const float (&slope)[2], const i32 (&diagonal)[2])
      : down_{-slope[0] * log2_of_e, -slope[1] * log2_of_e}, diagonal_{diagonal[0], diagonal[1]} {}

  /// Whether the bias of each row of the warp is nowhere in the tile larger than after it. Tiles are
  /// processed from the last to the first, so row_max of the tiles before is still large enough.
  REGARD_DEVICE bool fall(i32 first_key) const {
    return in_warp(is_left(first_key) && down_[0] <= 0 && down_[1] <= 0);
  }

  /// factor * score + bias. Tiles on one side of the diagonal save an instruction for each score.
  REGARD_DEVICE void add(ForwardScores& s, float factor, i32 first_key) const {
    if (in_warp(is_left(first_key)))
      add(s, Biased<Side::left>(*this, factor, first_key));
    else if (in_warp(is_right(first_key)))
      add(s, Biased<Side::right>(*this, factor, first_key));
    else
      add(s, Biased<Side::both>(*this, factor, first_key));
  }

  /// The same for one score at a time, the i-th of a row.
  template <Side side>
  class Biased {
   public:
    REGARD_DEVICE Biased(const Slopes& of, float factor, i32 first_key) : factor_(factor) {
      const i32 column = first_key + static_cast<i32>(threadIdx.x % 4) * 2;
#pragma unroll
      for (i32 half = 0; half < 2; ++half) {
        down_[half] = side == Side::left ? -of.down_[half] : of.down_[half];
        of_first_[half] = down_[half] * static_cast<float>(column - of.diagonal_[half]);
      }
    }
    REGARD_DEVICE float operator()(float score, i32 half, i32 i) const {
      const float along = fmaf(down_[half], static_cast<float>(i / 2 * 8 + i % 2), of_first_[half]);
      return fmaf(score, factor_, side == Side::both ? copysignf(along, down_[half]) : along);
    }

   private:
    float factor_, down_[2], of_first_[2];
  };
  /// Where `fall` is true.
  REGARD_DEVICE Biased<Side::left> before_diagonal(float factor, i32 first_key) const {
    return {*this, factor, first_key};
  }

 private:
  REGARD_DEVICE static bool in_warp(bool x) { return !__any_sync(whole_warp, !x); }

  /// A key on the diagonal is on neither side: rounding could give its bias either sign, and the code for all
  /// three cases has to give the same bits.
  REGARD_DEVICE bool is_left(i32 first_key) const {
    return first_key + block_k <= min(diagonal_[0], diagonal_[1]);
  }
  REGARD_DEVICE bool is_right(i32 first_key) const { return first_key > max(diagonal_[0], diagonal_[1]); }

  template <Side side>
  REGARD_DEVICE static void add(ForwardScores& s, const Biased<side>& biased) {
#pragma unroll
    for (i32 half = 0; half < 2; ++half)
#pragma unroll
      for (i32 i = 0; i < block_k / 4; ++i) {
        float& x = s[i / 2 * 4 + 2 * half + i % 2];
        x = biased(x, half, i);
      }
  }

  float down_[2];  // per key of distance, in powers of two
  i32 diagonal_[2];
};

}  // namespace regard
