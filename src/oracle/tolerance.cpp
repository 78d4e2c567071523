#include "oracle/tolerance.h"

#include <cmath>
#include <limits>

#include "oracle/number.h"

namespace regard::oracle {
namespace {

constexpr double smallest_normal = std::numeric_limits<float>::min();  // of bf16 too

/// What a stored number near 0 may be off by: half the smallest one; subnormal numbers of 8-bit exponents may
/// become 0.
double lost_near_zero(regard_dtype dtype) {
  return dtype == REGARD_BF16 || dtype == REGARD_FP32 ? smallest_normal : format(dtype).floor();
}

/// Half the smallest P of a type, where the largest of a row is about 1, or of 8 bits (e4m3), whose numbers
/// reach from 2^-9 to 448, at least 2^6: what is left above serves larger ones that come later.
double smallest_part(DType dtype) {
  const double half = format(bytes_of(dtype) == 1 ? REGARD_FP8 : static_cast<regard_dtype>(dtype)).floor();
  return bytes_of(dtype) == 1 ? half * 0x1p-6 : half;
}

}  // namespace

Precision::Precision(const Problem& problem)
    : product(format(static_cast<regard_dtype>(problem.dtype)).unit()),
      least(smallest_part(problem.dtype)),
      step(format(REGARD_FP32).unit()),
      score(bytes_of(problem.dtype) == 1 ? 0x1p-14 : 0),
      exponential(problem.dtype == DType::bf16 ? 0x1p-20 : 0),
      lost(problem.dtype == DType::bf16 ? smallest_normal : 0) {}

double Precision::row(double largest_logit, double logit_per_lost, double lse, std::int64_t terms) const {
  const double sums = std::sqrt(static_cast<double>(terms));
  return step * (4 + sums + 2 * largest_logit + (std::isfinite(lse) ? 2 * std::fabs(lse) : 0)) +
         score * largest_logit + lost * logit_per_lost + exponential;
}

double Precision::slope(double slope, double largest_logit, double cap) const {
  if (cap <= 0) return 0;
  return 4 * step + 2 * std::sqrt(1 - slope) * (2 * step + score) * largest_logit / cap;
}

double Precision::weight(double weight, double log_weight, double row_error) const {
  return weight * (row_error - 2 * step * log_weight) + smallest_normal;
}

double Precision::rounded(double weight, double log_weight, double row_error, double largest) const {
  return this->weight(weight, log_weight, row_error) + product * weight + least * largest;
}

double tolerance(regard_dtype dtype, double exact, double expected_error) {
  if (dtype == REGARD_UINT8 || std::isinf(exact)) return 0;
  const Format f = format(dtype);
  // The stored value is off by half a unit of its own last place, which may be one binade above the exact
  // one.
  const double computed = safety * expected_error;
  return computed + 1.01 * f.unit() * (std::fabs(exact) + computed) + lost_near_zero(dtype);
}

}  // namespace regard::oracle
