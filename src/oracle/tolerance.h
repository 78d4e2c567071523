// The one place of tolerances: what a well-made kernel may err by. docs/tolerances.md tells the reasoning.
#pragma once

#include <cstdint>
#include <limits>

#include "problem/problem.h"
#include "regard/regard.h"

namespace regard::oracle {

struct Row;

/// Errors are compared with this many times the expected one: about 7 standard deviations of a sum of
/// independent roundings, each uniform within half a unit.
constexpr double safety = 4;
/// An error that is at most `bound`, whatever happens, as an expected one.
constexpr double certain(double bound) {
  return bound / safety;
}

/// Error of the scores of a row, or the relative one of its weights: what all of them may err by together,
/// and what each does on its own besides.
struct RowError {
  double shared = 0, own = 0;
  double of_each() const { return shared + own; }
};

constexpr double smallest_normal = std::numeric_limits<float>::min();  // of bf16 too

/// Relative errors of one rounding, and of the steps of a kernel that computes in fp32.
struct Precision {
  explicit Precision(const Problem&);

  double product;     ///< P and dS may be rounded to the type of the inputs before a matrix product
  double least;       ///< the same of a P near 0, as a part of the row's largest
  double least_grad;  ///< the same of a dX near 0
  double step;        ///< one fp32 rounding
  double score;  ///< Q K^T: matrix units sum products of 8-bit numbers with 14 bits, all others with fp32's
  double exponential;  ///< beyond fp32: where weights become bf16, the exponential need not be more exact
  double lost;  ///< what an input near 0 may lose: instructions of CPUs take subnormal bf16 numbers as 0

  /// Error of a running fp32 sum, relative to the largest it gets on the way: its roundings add up like a
  /// random walk, or, where the terms are alike, all in one direction.
  double sum(std::int64_t terms) const;

  /// Error of the scores of a row, which are fp32 numbers: it grows with their magnitude.
  RowError scores(const Row&, std::int64_t d) const;

  /// Relative error of the weights exp(score - LSE) of a row, but for their exponential.
  RowError row(const Row&, const RowError& score) const;

  /// Error of the LSE: what scores err by on their own averages out over the keys, as far as there are
  /// several that count. The root of the sum of their squares is at most that of the largest weight.
  double lse(const Row&, const RowError&) const;

  /// Error of a product of two vectors, from their norms, beyond what `sum` says of it: roundings, and
  /// numbers that are lost.
  double product_of(double norm_a, double norm_b, std::int64_t terms) const;

  /// Relative error of the slope 1 - tanh(x)^2 of a soft cap, where x is off by the error of a score.
  double slope(double slope, double score_error, double cap) const;

  /// Relative error of one weight of a row: the further it lies below the largest, the larger the number that
  /// went through the exponential.
  double relative(double log_weight, double row_error) const;

  /// The same, absolute: what is not a normal number may be flushed to zero.
  double weight(double weight, double log_weight, double row_error) const;

  /// The same once the weight is rounded for the product with V. `largest`: of the row's weights.
  double rounded(double weight, double log_weight, double row_error, double largest) const;

  /// What may be lost of a weight because it lies near 0 in the type that it is rounded to.
  double vanishing(double weight, double largest) const;
};

/// What a stored number near 0 may be off by: half the smallest one; subnormal numbers of 8-bit exponents may
/// become 0.
double lost_near_zero(regard_dtype);

/// The largest error allowed for one element, from the exact value and the error expected before it was
/// stored as `dtype`.
double tolerance(regard_dtype dtype, double exact, double expected_error);

}  // namespace regard::oracle
