// Sums of products that know how wrong a kernel's sum may be: independent errors add up as squares.
#pragma once

#include <cmath>
#include <cstdint>

#include "oracle/inputs.h"

namespace regard::oracle {

struct Sums {
  Matrix value, variance;
  double lost;  ///< what each x may be off by

  Sums(std::int64_t rows, std::int64_t columns, double lost_)
      : value{rows, columns, {}}, variance{rows, columns, {}}, lost(lost_) {
    clear();
  }
  void clear() {
    value.values.assign(static_cast<std::size_t>(value.rows * value.columns), 0);
    variance.values.assign(value.values.size(), 0);
  }
  /// Adds factor * x to a row; the factor is known to `error`, absolutely.
  void add(std::int64_t row, double factor, double error, const double* x) {
    double* values = value.row(row);
    double* variances = variance.row(row);
    const double square = error * error, lost_square = factor * lost * factor * lost;
    for (std::int64_t c = 0; c < value.columns; ++c) {
      values[c] += factor * x[c];
      variances[c] += square * x[c] * x[c] + lost_square;
    }
  }
  double error(std::int64_t row, std::int64_t c) const { return std::sqrt(variance.row(row)[c]); }
};

}  // namespace regard::oracle
