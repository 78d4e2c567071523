#include "oracle/tolerance.h"

#include <algorithm>
#include <cmath>

#include "oracle/number.h"
#include "oracle/oracle.h"
#include "oracle/row.h"

namespace regard::oracle {
namespace {

/// Kernels split a long sum into parts of about this length, and then add up the parts.
constexpr std::int64_t longest_part = 4096;
/// The same for a row's weights: each block of keys, or each thread, has its own sum.
constexpr std::int64_t longest_part_of_weights = 1024;

/// n equal terms, added one after the other, are off by at most 0.375 n of the half units of their sum: by
/// half a unit each, but the unit is that of the running sum.
constexpr double drift = 0.4;

/// Half the smallest P of a type, where the largest of a row is about 1 or, in 8 bits (e4m3), whose numbers
/// reach from 2^-9 to 448, at least 2^6: the range above is left for larger ones that come later.
double smallest_part(DType dtype) {
  const double half = format(bytes_of(dtype) == 1 ? REGARD_FP8 : static_cast<regard_dtype>(dtype)).floor();
  return bytes_of(dtype) == 1 ? half * 0x1p-6 : half;
}

/// Half the smallest dX of fp16. dS is rounded after multiplication by a power of two that is at least 8
/// scale, as far as that is at most 256 (kernels with fp32 operands lose nothing; bf16 has the exponents of
/// fp32).
double smallest_gradient(const Problem& problem) {
  if (problem.dtype != DType::fp16) return 0;
  return format(REGARD_FP16).floor() * std::max(0x1p-3, std::fabs(scale_of(problem)) * 0x1p-8);
}

/// Errors relative to the largest value of a sum of that many terms on the way: of roundings as a random
/// walk, and of equal terms, which are all rounded in the same direction.
double walk(std::int64_t terms) {
  return std::sqrt(static_cast<double>(terms));
}
double drifted(std::int64_t terms, std::int64_t longest = longest_part) {
  return certain(drift * static_cast<double>(std::min(terms, longest)));
}

}  // namespace

Precision::Precision(const Problem& problem)
    : rotated(problem.rope == Rope::none ? 0 : format(static_cast<regard_dtype>(problem.dtype)).unit()),
      scaled(problem.descale == Descale::columns ? format(static_cast<regard_dtype>(problem.dtype)).unit()
                                                 : 0),
      product(format(static_cast<regard_dtype>(problem.dtype)).unit()),
      least(smallest_part(problem.dtype)),
      least_grad(smallest_gradient(problem)),
      step(format(REGARD_FP32).unit()),
      score(bytes_of(problem.dtype) == 1 ? 0x1p-14 : 0),
      exponential(problem.dtype == DType::bf16 ? 0x1p-20 : 0),
      lost(problem.dtype == DType::bf16 ? smallest_normal : 0) {}

double Precision::sum(std::int64_t terms) const {
  return step * (walk(terms) + drifted(terms));
}

RowError Precision::scores(const Row& row, std::int64_t d) const {
  return {(2 * step + score) * row.largest_logit +
              (step * drifted(d) + certain(rotated + scaled)) * row.largest_score + lost * row.logit_per_lost,
          step * walk(d) * row.largest_score + rotated * row.rotated + scaled * row.scaled_keys};
}

RowError Precision::row(const Row& row, const RowError& of_products) const {
  // Errors of a function's scores can have one sign, or average out.
  const double of_function = certain(row.function_error);
  const RowError score = of_function > 0 ? RowError{of_function, of_function} : of_products;
  return {4 * step + step * (walk(row.seen) + drifted(row.seen, longest_part_of_weights)) + score.shared +
              (std::isfinite(row.lse) ? 2 * step * std::fabs(row.lse) : 0) + exponential,
          score.own};
}

double Precision::lse(const Row& row, const RowError& error) const {
  return error.shared + error.own * std::sqrt(row.largest_weight);
}

double Precision::row_max(const Row& row, const RowError& of_products) const {
  const double rounding = std::isfinite(row.row_max) ? 4 * step * std::fabs(row.row_max) : 0;
  return of_products.of_each() + certain(row.function_error) + rounding;
}

double Precision::product_of(double norm_a, double norm_b, std::int64_t terms) const {
  const double count = static_cast<double>(terms);
  return 2 * step * norm_a * norm_b + lost * std::sqrt(count) * (norm_a + norm_b) + smallest_normal * count;
}

double Precision::slope(double slope, double score_error, double cap) const {
  return cap <= 0 ? 0 : 4 * step + 2 * std::sqrt(1 - slope) * score_error / cap;
}

double Precision::relative(double log_weight, double row_error) const {
  return row_error - 2 * step * log_weight;
}

double Precision::weight(double weight, double log_weight, double row_error) const {
  return weight * relative(log_weight, row_error) + smallest_normal;
}

double Precision::vanishing(double weight, double largest) const {
  const double most = std::max(least * largest, smallest_normal);
  return product * weight < most ? std::min(weight, most) : 0;
}

double Precision::rounded(double weight, double log_weight, double row_error, double largest) const {
  return this->weight(weight, log_weight, row_error) + (product + scaled) * weight + least * largest;
}

double lost_near_zero(regard_dtype dtype) {
  return dtype == REGARD_BF16 || dtype == REGARD_FP32 ? smallest_normal : format(dtype).floor();
}

double tolerance(regard_dtype dtype, double exact, double expected_error) {
  if (dtype == REGARD_UINT8 || std::isinf(exact) || expected_error == Output::copied) return 0;
  if (dtype == REGARD_INT8) return safety * expected_error + 1.01 * 0.5;
  const Format f = format(dtype);
  // The stored value is off by half a unit in its own last place, which can be one binade above the exact
  // one.
  const double computed = safety * expected_error;
  return computed + 1.01 * f.unit() * (std::fabs(exact) + computed) + lost_near_zero(dtype);
}

Judgement judge(regard_dtype dtype, double actual, double exact, double expected_error) {
  const bool integer = dtype == REGARD_INT8;
  if (integer && std::isnan(exact)) return {};  // it has no number for that
  if (integer) exact = std::clamp(exact, -128.0, 127.0);
  // The inputs make it NaN, and the output must show that.
  if (std::isnan(exact)) return {std::isnan(actual) ? 0 : infinity, 0};
  const double allowed = tolerance(dtype, exact, expected_error);
  if (actual == exact) return {0, allowed};  // also equal infinities
  // A value that overflows the output's type is stored as infinity, or as the largest number where there is
  // none.
  const double largest = integer ? infinity : format(dtype).largest();
  if (std::isfinite(exact) && std::fabs(exact) + allowed > largest && std::fabs(actual) >= largest &&
      actual * exact > 0)
    return {0, allowed};
  return {std::fabs(actual - exact), allowed};
}

}  // namespace regard::oracle
