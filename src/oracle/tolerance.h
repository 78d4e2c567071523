// All tolerances are defined here: the error allowed for a well-made kernel. docs/tolerances.md explains the
// reasoning.
#pragma once

#include <cstdint>
#include <limits>

#include "problem/problem.h"
#include "regard/regard.h"

namespace regard::oracle {

struct Row;

/// Errors are compared with this multiple of the expected one: about 7 standard deviations of a sum of
/// independent roundings, each uniform within half a unit.
constexpr double safety = 4;
/// The expected error for one that is at most `bound` in any case.
constexpr double certain(double bound) {
  return bound / safety;
}

/// Error of the scores of a row, or the relative one of its weights: the error common to all of them, and the
/// independent one of each.
struct RowError {
  double shared = 0, own = 0;
  double of_each() const { return shared + own; }
};

constexpr double smallest_normal = std::numeric_limits<float>::min();  // also of bf16

/// Relative errors of one rounding, and of the steps of a kernel that computes in fp32.
struct Precision {
  explicit Precision(const Problem&);

  double rotated;      ///< a rotated number of Q can be rounded to its type
  double scaled;       ///< so can a number of K and V times the factor of its columns
  double product;      ///< P and dS can be rounded to the type of the inputs before a matrix product
  double least;        ///< the same for a P near 0, relative to the row's largest
  double least_grad;   ///< the same for a dX near 0
  double step;         ///< one fp32 rounding
  double score;        ///< Q K^T: matrix units sum products of 8-bit numbers with 14 bits, others in fp32
  double exponential;  ///< beyond fp32: where weights become bf16, the exponential need not be more accurate
  double lost;         ///< what an input near 0 can lose: CPU instructions take subnormal bf16 numbers as 0

  /// Error of a running fp32 sum, relative to its largest value on the way: its roundings add up like a
  /// random walk or, where the terms are equal, all in one direction.
  double sum(std::int64_t terms) const;

  /// Error of the scores of a row, which are fp32 numbers: it grows with their magnitude.
  RowError scores(const Row&, std::int64_t d) const;

  /// Relative error of the weights exp(score - LSE) of a row, without that of their exponential.
  RowError row(const Row&, const RowError& score) const;

  /// Error of the LSE: independent errors of scores average out over the keys, as far as several of them
  /// count. The root of the sum of their squares is at most that of the largest weight.
  double lse(const Row&, const RowError&) const;

  /// Error of the largest score, from that of the products.
  double row_max(const Row&, const RowError& of_products) const;

  /// Error of a product of two vectors, from their norms, beyond that of `sum`: roundings, and lost numbers.
  double product_of(double norm_a, double norm_b, std::int64_t terms) const;

  /// Relative error of the slope 1 - tanh(x)^2 of a soft cap, where x is off by the error of a score.
  double slope(double slope, double score_error, double cap) const;

  /// Relative error of one weight of a row: the further it is below the largest, the larger the argument of
  /// the exponential.
  double relative(double log_weight, double row_error) const;

  /// The same, absolute: values that are not normal numbers can be flushed to zero.
  double weight(double weight, double log_weight, double row_error) const;

  /// The same once the weight is rounded for the product with V. `largest`: of the row's weights.
  double rounded(double weight, double log_weight, double row_error, double largest) const;

  /// What can be lost of a weight because it is near 0 in the type that it is rounded to.
  double vanishing(double weight, double largest) const;
};

/// The largest error of a stored number near 0: half the smallest one; subnormal numbers of types with 8-bit
/// exponents can become 0.
double lost_near_zero(regard_dtype);

/// The largest error allowed for one element, from the exact value and the error expected before it was
/// stored as `dtype`.
double tolerance(regard_dtype dtype, double exact, double expected_error);

struct Judgement {
  double absolute = 0, allowed = 0;                   ///< error
  bool right() const { return absolute <= allowed; }  ///< false where one of them is NaN
};
/// One stored element against the exact one; `expected_error` as in Output.
Judgement judge(regard_dtype dtype, double actual, double exact, double expected_error);

}  // namespace regard::oracle
