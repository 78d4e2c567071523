// The one place of tolerances: what a well-made kernel may err by. docs/tolerances.md tells the reasoning.
#pragma once

#include <cstdint>

#include "problem/problem.h"
#include "regard/regard.h"

namespace regard::oracle {

/// Errors are compared with this many times the expected one: about 7 standard deviations of a sum of
/// independent roundings, each uniform within half a unit.
constexpr double safety = 4;

/// Relative errors of one rounding, and of the steps of a kernel that computes in fp32.
struct Precision {
  explicit Precision(const Problem&);

  double product;  ///< P and dS may be rounded to the type of the inputs before a matrix product
  double least;    ///< the same of a P near 0, as a part of the row's largest
  double step;     ///< one fp32 rounding
  double score;    ///< Q K^T: matrix units sum products of 8-bit numbers with 14 bits, all others with fp32's
  double exponential;  ///< beyond fp32: where weights become bf16, the exponential need not be more exact
  double lost;  ///< what an input near 0 may lose: instructions of CPUs take subnormal bf16 numbers as 0

  /// Relative error that all weights exp(score - LSE) of a row share: the scores are fp32 numbers whose own
  /// rounding grows with their magnitude, and `terms` roundings of a running fp32 sum add up like a random
  /// walk. `logit_per_lost`: by what a score is off if the numbers of Q and K are off by 1.
  double row(double largest_logit, double logit_per_lost, double lse, std::int64_t terms) const;

  /// Relative error of the slope 1 - tanh(x)^2 of a soft cap, where x is off by the rounding of a score.
  double slope(double slope, double largest_logit, double cap) const;

  /// Error of one weight of a row: the further it lies below the largest, the larger the number that went
  /// through the exponential; and what is not a normal number may be flushed to zero.
  double weight(double weight, double log_weight, double row_error) const;

  /// The same once the weight is rounded for the product with V. `largest`: of the row's weights.
  double rounded(double weight, double log_weight, double row_error, double largest) const;
};

/// The largest error allowed for one element, from the exact value and the error expected before it was
/// stored as `dtype`.
double tolerance(regard_dtype dtype, double exact, double expected_error);

}  // namespace regard::oracle
