#include "oracle/tolerance.h"

#include <cmath>
#include <limits>

#include "oracle/number.h"

namespace regard::oracle {

Precision::Precision(const Problem& problem)
    : product(format(static_cast<regard_dtype>(problem.dtype)).unit()),
      step(format(REGARD_FP32).unit()),
      score(bytes_of(problem.dtype) == 1 ? 0x1p-14 : 0) {}

double Precision::row(double largest_logit, double lse, std::int64_t terms) const {
  const double sums = std::sqrt(static_cast<double>(terms));
  return step * (4 + sums + 2 * largest_logit + (std::isfinite(lse) ? 2 * std::fabs(lse) : 0)) +
         score * largest_logit;
}

double Precision::weight(double weight, double log_weight, double row_error) const {
  return weight * (row_error - 2 * step * log_weight) + std::numeric_limits<float>::min();
}

double tolerance(regard_dtype dtype, double exact, double expected_error) {
  if (dtype == REGARD_UINT8 || std::isinf(exact)) return 0;
  const Format f = format(dtype);
  // The stored value is off by half a unit of its own last place, which may be one binade above the exact
  // one.
  const double computed = safety * expected_error;
  return computed + 1.01 * f.unit() * (std::fabs(exact) + computed) + f.floor();
}

}  // namespace regard::oracle
