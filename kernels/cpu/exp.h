// Exponential, logarithm and hyperbolic tangent of vectors, to about the precision of fp32.
#pragma once

#include "kernels/cpu/vector.h"

namespace regard {

constexpr float log_of_2 = 0.69314718055994530942f;

enum class Precision {
  bf16,      // relative error 7.5e-5, below half a unit of bf16
  bf16_sum,  // 2.7e-6: bf16 weights whose sum is reported in fp32
  beside,    // 5.5e-7: the same, during a product: half the multiply-adds, but more of everything else
  fp32       // 1.9e-7
};

/// The coefficients of polynomials for 2^(i/16 + f), f in [0, 1/16).
struct SixteenthPowers {
  float coefficients[3][16] = {};

  constexpr SixteenthPowers() {
    constexpr double of_f[] = {1.0000004234534299, 0.69302419437493701, 0.24547958380432328};
    double power = 1;
    for (int i = 0; i < 16; ++i, power *= 1.0442737824274138403)
      for (int j = 0; j < 3; ++j) coefficients[j][i] = static_cast<float>(power * of_f[j]);
  }
};
alignas(64) constexpr SixteenthPowers sixteenth_powers;

/// 2^x for x up to 127; exactly 0 for -infinity, NaN for NaN. Results below 2^-126 may be flushed to 0.
template <Precision precision = Precision::fp32>
REGARD_INLINE Floats exp2(Floats x) {
  if constexpr (precision == Precision::beside && target::avx512) {
    Floats fraction, sixteenths, c0, c1, c2;
    REGARD_X86_ASM(
        "vreduceps $0x41, %1, %0" : "=v"(fraction) : "v"(x));  // x - floor(16 x) / 16; 0 for an infinite x
    // Rounded down to sixteenths; the last bits of 1.5 * 2^19 + x are their number.
    REGARD_X86_ASM("vaddps %{rd-sae%}, %2, %1, %0" : "=v"(sixteenths) : "v"(x), "v"(broadcast(786432.0f)));
    REGARD_X86_ASM("vpermps %2, %1, %0" : "=v"(c0) : "v"(sixteenths), "m"(sixteenth_powers.coefficients[0]));
    REGARD_X86_ASM("vpermps %2, %1, %0" : "=v"(c1) : "v"(sixteenths), "m"(sixteenth_powers.coefficients[1]));
    REGARD_X86_ASM("vpermps %2, %1, %0" : "=v"(c2) : "v"(sixteenths), "m"(sixteenth_powers.coefficients[2]));
    Floats power = (c2 * fraction + c1) * fraction + c0;
    REGARD_X86_ASM("vscalefps %1, %0, %0" : "+v"(power) : "v"(x));
    return power;
  }
  Floats fraction, floor;
  if constexpr (target::neon) {
    const Floats bounded = max(x, broadcast(-127.0f));  // NaN stays NaN
    REGARD_ARM_ASM("frintm %0.4s, %1.4s" : "=w"(floor) : "w"(bounded));
    fraction = bounded - floor;
  } else if constexpr (target::avx512) {
    REGARD_X86_ASM("vreduceps $1, %1, %0" : "=v"(fraction) : "v"(x));  // x - floor(x); 0 for an infinite x
  } else {
    const Floats bounded = max(x, broadcast(-127.0f));
    if constexpr (target::avx2) {
      REGARD_X86_ASM("vroundps $1, %1, %0" : "=v"(floor) : "v"(bounded));
    } else {
      const Floats near = __builtin_convertvector(__builtin_convertvector(bounded, Ints), Floats);
      floor = near + __builtin_convertvector(near > bounded, Floats);
    }
    fraction = bounded - floor;
  }
  Floats power;  // 2^fraction
  if constexpr (precision == Precision::bf16) {
    power = ((0.07802452147006989f * fraction + 0.22606715559959412f) * fraction + 0.6958335638046265f) *
                fraction +
            0.9999251961708069f;
  } else if constexpr (precision == Precision::bf16_sum) {
    power = (((0.013534167781472206f * fraction + 0.052011460065841675f) * fraction + 0.2414427548646927f) *
                 fraction +
             0.6930038332939148f) *
                fraction +
            1.0000026226043701f;
  } else {
    power = ((((0.0018775766948238015f * fraction + 0.00898933969438076f) * fraction + 0.05582631751894951f) *
                  fraction +
              0.24015361070632935f) *
                 fraction +
             0.6931530833244324f) *
                fraction +
            0.9999999403953552f;
  }
  if constexpr (target::avx512) {
    REGARD_X86_ASM("vscalefps %1, %0, %0" : "+v"(power) : "v"(x));  // times 2^floor(x)
    return power;
  } else if constexpr (target::neon) {
    // The last bits of 1.5 * 2^23 + floor are floor as an integer: more units can add than convert.
    const Ints exponent = bits_as<Ints>(floor + 0x1.8p23f) << 23;
    return select(x < -126.0f, Floats{}, bits_as<Floats>(bits_as<Ints>(power) + exponent));
  } else {
    const Ints exponent = __builtin_convertvector(floor, Ints) << 23;
    const Floats scaled = bits_as<Floats>(bits_as<Ints>(power) + exponent);
    return select(x < -126.0f, Floats{}, select(x == x, scaled, x));
  }
}

/// Natural logarithm of normal positive numbers; infinity and NaN are passed through.
REGARD_INLINE Floats log(Floats x) {
  // x = m * 2^e with m in [sqrt(1/2), sqrt(2)); log m = 2 artanh((m - 1) / (m + 1)).
  const Ints moved = bits_as<Ints>(x) - 0x3f3504f3;
  const Ints exponent = moved >> 23;
  const Floats m = bits_as<Floats>((moved & 0x7fffff) + 0x3f3504f3);
  const Floats t = (m - 1.0f) / (m + 1.0f), square = t * t;
  const Floats series =
      (((square * (1 / 9.0f) + 1 / 7.0f) * square + 1 / 5.0f) * square + 1 / 3.0f) * square + 1.0f;
  const Floats result = 2.0f * t * series + __builtin_convertvector(exponent, Floats) * log_of_2;
  return select(x < infinity, result, x);
}

/// a / b of normal numbers, to within 1 or 2 ulp if a is above 2^-112. A division of whole AVX-512 vectors
/// takes 16 cycles.
REGARD_INLINE Floats quotient(Floats a, Floats b) {
  if constexpr (target::avx512) {
    Floats inverse;  // to 2^-14
    REGARD_X86_ASM("vrcp14ps %1, %0" : "=v"(inverse) : "v"(b));
    const Floats near = a * inverse;
    return (a - near * b) * inverse + near;
  } else {
    return a / b;
  }
}

/// tanh(x), relative error 3.1e-7: a quotient of polynomials with the least maximum relative error up to
/// 8.2, above which the value at 8.2 is exact enough.
REGARD_INLINE Floats tanh(Floats x) {
  const Floats bounded = max(broadcast(-8.2f), min(broadcast(8.2f), x));
  const Floats square = bounded * bounded;
  const Floats over =
      ((((2.2354840201188608e-11f * square - 1.4304652573571275e-08f) * square + 9.756963663676288e-06f) *
            square +
        0.0029732107650488615f) *
           square +
       0.12967653572559357f) *
          square +
      1.0f;
  const Floats under =
      ((0.00023541688278783113f * square + 0.023976754397153854f) * square + 0.46300965547561646f) * square +
      1.0f;
  return quotient(bounded * over, under);
}

/// tanh(x) where |x| is at most 1/2, relative error 7.5e-8: a polynomial, at half the cost.
REGARD_INLINE Floats tanh_near_0(Floats x) {
  const Floats square = x * x;
  const Floats beyond =
      ((0.01724151335656643f * square - 0.05304550379514694f) * square + 0.13325878977775574f) * square -
      0.333331435918808f;
  return x * (square * beyond) + x;
}

REGARD_INLINE Ints is_near_0(Floats x) {
  return x * x <= 0.25f;
}
/// Whether tanh_near_0 can be used for all lanes of both.
REGARD_INLINE bool near_0(Floats x, Floats y) {
  return !any(~(is_near_0(x) & is_near_0(y)));
}

/// Uses one or the other per lane, whatever the other lanes contain.
REGARD_INLINE Floats tanh_by_lane(Floats x) {
  return select(is_near_0(x), tanh_near_0(x), tanh(x));
}

/// The slope 1 - tanh(x)^2, without the subtraction, which loses all digits where tanh is almost 1.
REGARD_INLINE Floats tanh_slope(Floats x) {
  const Floats magnitude = bits_as<Floats>(bits_as<Ints>(x) & 0x7fffffff);
  const Floats e = exp2(magnitude * (-2 * log2_of_e)), share = quotient(broadcast(1.0f), 1.0f + e);
  return 4.0f * e * share * share;
}

}  // namespace regard
