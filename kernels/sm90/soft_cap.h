// The soft cap of scores: cap * tanh(x / cap), from products of Q and K to powers of two.
#pragma once

#include "kernels/cuda/number.h"

namespace regard {

/// Near 0, where nearly all scores are, tanh is a polynomial whose coefficients have all factors in them.
class SoftCap {
 public:
  /// `scale`: of the products, to natural units.
  REGARD_DEVICE SoftCap(float scale, float cap) : most_(cap * log2_of_e) {
    const float factor = scale / cap, squared = factor * factor;
    to_e_squared_ = 2 * log2_of_e * factor;
    // Where the seventh power of the factor could overflow the long form serves all: it is within 2^-22 of a
    // cap that is far below the products.
    constexpr float largest = 0x1p16f;
    if (!(fabsf(factor) < largest)) return;
    near_end_ = tanh_near_0_end * tanh_near_0_end * reciprocal(squared);
    linear_ = most_ * factor;
    float power = linear_;
#pragma unroll
    for (i32 i = 0; i < 3; ++i) power *= squared, bend_[i] = power * tanh_bend[i];
  }

  /// Of a product whose square `is_near`.
  REGARD_DEVICE float near(float x) const {
    const float y = x * x;
    // A plain product the compiler would join with what is taken off it, where that follows at once.
    return fmaf(x, fmaf(y, fmaf(y, fmaf(y, bend_[2], bend_[1]), bend_[0]), linear_), 0.f);
  }
  REGARD_DEVICE bool is_near(float square) const { return square < near_end_; }

  /// Of any product; of one that is near the same bits.
  REGARD_DEVICE float operator()(float x) const {
    const float far = fmaf(-2 * most_, reciprocal(1 + exp2(x * to_e_squared_)), most_);
    return is_near(x * x) ? near(x) : far;
  }

 private:
  float most_, to_e_squared_, near_end_ = 0, linear_ = 0, bend_[3] = {};
};

}  // namespace regard
