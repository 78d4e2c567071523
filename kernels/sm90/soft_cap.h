// The soft cap of scores: cap * tanh(x / cap), from products of Q and K to powers of two.
#pragma once

#include "kernels/tanh.h"

namespace regard {

/// The polynomial for tanh, which covers nearly all scores; its coefficients include all factors.
class SoftCap {
 public:
  /// `scale`: of the products, to natural units.
  REGARD_DEVICE SoftCap(float scale, float cap) : most_(cap * log2_of_e) {
    const float factor = scale / cap, squared = factor * factor;
    to_e_squared_ = 2 * log2_of_e * factor;
    power_1_ = scale * log2_of_e;
    const float cubed = power_1_ * squared, fifth = cubed * squared, seventh = fifth * squared;
    power_3_ = cubed * tanh_3, power_5_ = fifth * tanh_5, power_7_ = seventh * tanh_7;
    // If coefficients would overflow or lose digits, the long form serves all products. It is off by at most
    // 2^-22 of the cap, which is little for usual caps (Sm90Boxes::largest_soft_cap).
    const float last = fabsf(power_7_);
    near_end_ = 0;
    if (last > 0x1p-100f && last < 0x1p100f)
      near_end_ = tanh_near_0_end * tanh_near_0_end * reciprocal(squared);
  }

  /// The capped score of a product for whose square `is_near` holds.
  REGARD_DEVICE float near(float x) const {
    const float y = x * x;
    // The compiler would fuse a plain product with a subtraction that follows it directly. In the long form
    // none follows, and both have to give the same bits.
    return fmaf(x, fmaf(y, fmaf(y, fmaf(y, power_7_, power_5_), power_3_), power_1_), 0.f);
  }
  REGARD_DEVICE bool is_near(float square) const { return square < near_end_; }

  /// The capped score of any product.
  REGARD_DEVICE float operator()(float x) const {
    const float far = fmaf(-2 * most_, reciprocal(1 + exp2(x * to_e_squared_)), most_);
    return is_near(x * x) ? near(x) : far;
  }

 private:
  float most_, to_e_squared_, near_end_, power_1_, power_3_, power_5_, power_7_;
};

}  // namespace regard
