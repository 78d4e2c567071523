// Sums of products that track how wrong a kernel's sum can be (docs/tolerances.md): independent errors add up
// as squares, errors common to all terms linearly.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "oracle/inputs.h"
#include "oracle/row.h"
#include "oracle/tolerance.h"

namespace regard::oracle {

/// What a sum adds to a row: factor * x.
struct Term {
  double factor = 0;
  double error = 0;      ///< of the factor, absolute: its own, independent error
  double shared = 0;     ///< of the factor, relative: its error in common with the others
  double vanishing = 0;  ///< what can be lost of the factor because it is near 0
  double common = 0;     ///< of the factor, absolute and signed: one error for all terms
};

/// The weight of key j after dropout, as it is multiplied by V or dO. `row_error`: of all weights of the row.
inline Term weight_of(const Row& row, std::size_t j, const Precision& precision, const RowError& row_error) {
  const double weight = row.weight[j], keep = row.keep[j];
  return {
      keep * weight,
      keep * precision.rounded(weight, row.log_weight[j], row_error.of_each(), row.largest_weight),
      precision.relative(row.log_weight[j], row_error.shared) + certain(precision.product + precision.scaled),
      keep * precision.vanishing(weight, row.largest_weight)};
}

enum class Common : bool { no, yes };  ///< whether terms have `common` errors

struct Sums {
  Matrix value, variance, common, peak;

  Sums(std::int64_t rows, std::int64_t columns, const Precision& precision, Common has_common)
      : value{rows, columns, {}},
        variance{rows, columns, {}},
        common{has_common == Common::yes ? rows : 0, columns, {}},
        peak{rows, columns, {}},
        precision_(precision),
        largest_(static_cast<std::size_t>(columns), 0) {
    clear();
  }
  void clear() {
    for (Matrix* matrix : {&value, &variance, &common, &peak})
      matrix->values.assign(static_cast<std::size_t>(matrix->rows * matrix->columns), 0);
    tallies_.assign(static_cast<std::size_t>(value.rows), {});
  }
  /// The values that x can have: what is lost of factors near 0 is weighted by the largest of each column.
  void expect(const Matrix& x) {
    for (std::int64_t i = 0; i < x.rows; ++i)
      for (std::int64_t c = 0; c < x.columns; ++c)
        if (const double size = std::fabs(x.row(i)[c]); std::isfinite(size))
          largest_[static_cast<std::size_t>(c)] = std::max(largest_[static_cast<std::size_t>(c)], size);
  }
  void add(std::int64_t row, const Term& term, const double* x) {
    double* values = value.row(row);
    double* variances = variance.row(row);
    const double lost = term.factor * precision_.lost;
    const double square = term.error * term.error, lost_square = lost * lost;
    for (std::int64_t c = 0; c < value.columns; ++c) {
      values[c] += term.factor * x[c];
      variances[c] += square * x[c] * x[c] + lost_square;
    }
    if (common.rows > 0) {
      double* sums = common.row(row);
      for (std::int64_t c = 0; c < value.columns; ++c) sums[c] += term.common * x[c];
    }
    Tally& tally = tallies_[static_cast<std::size_t>(row)];
    tally.size += std::fabs(term.factor);
    tally.shared += std::fabs(term.factor) * term.shared;
    tally.vanishing += term.vanishing;
    if (++tally.terms % looked_at == 0) look(row);
  }
  double error(std::int64_t row, std::int64_t c) const {
    const Tally& tally = tallies_[static_cast<std::size_t>(row)];
    if (tally.terms == 0) return 0;
    const double reach = std::max(peak.row(row)[c], std::fabs(value.row(row)[c]));
    const double shared = tally.size > 0 ? tally.shared / tally.size : 0;
    const double vanishing = tally.vanishing * largest_[static_cast<std::size_t>(c)];
    const double near_zero =
        precision_.lost * tally.size + smallest_normal * static_cast<double>(tally.terms);
    return std::sqrt(variance.row(row)[c]) + (shared + precision_.sum(tally.terms)) * reach +
           (common.rows > 0 ? std::fabs(common.row(row)[c]) : 0) + certain(vanishing + near_zero);
  }

 private:
  /// Totals of a whole row.
  struct Tally {
    std::int64_t terms = 0;
    double size = 0, shared = 0, vanishing = 0;
  };
  void look(std::int64_t row) {
    for (std::int64_t c = 0; c < value.columns; ++c)
      peak.row(row)[c] = std::max(peak.row(row)[c], std::fabs(value.row(row)[c]));
  }

  const Precision& precision_;
  std::vector<double> largest_;
  std::vector<Tally> tallies_;
};

}  // namespace regard::oracle
