// An output in its logical shape, filled row by row.
#pragma once

#include <atomic>
#include <cmath>
#include <vector>

#include "oracle/inputs.h"
#include "oracle/number.h"
#include "oracle/oracle.h"
#include "oracle/tolerance.h"

namespace regard::oracle {

/// Does nothing for a role that the problem does not write.
class Writer {
 public:
  Writer() = default;
  /// Elements that are never set have no result; those of a `sum` over heads are 0.
  Writer(const Problem& problem, regard_role role, Outputs& outputs, bool sum = false) {
    const TensorSpec spec = tensor_spec(problem, role);
    if (!is_written(spec.use)) return;
    std::int64_t count = 1;
    std::vector<std::int64_t> strides(spec.shape.size());
    for (std::size_t i = spec.shape.size(); i-- > 0;) {
      strides[i] = count;
      count *= spec.shape[i];
    }
    index_ = index_of(role, static_cast<int>(spec.shape.size()), spec.shape.data(), strides.data());
    output_ = &outputs[role];
    output_->value.assign(static_cast<std::size_t>(count), sum ? 0 : nan);
    output_->error.assign(static_cast<std::size_t>(count), sum ? 0 : Output::no_result);
    if (sum) common_.assign(static_cast<std::size_t>(count), 0);
  }

  explicit operator bool() const { return output_ != nullptr; }

  void set(std::int64_t b, std::int64_t h, std::int64_t row, std::int64_t column, double value,
           double error) const {
    if (!output_) return;
    const auto at = static_cast<std::size_t>(index_.at(b, h, row) + column);
    output_->value[at] = value;
    output_->error[at] = error;
  }

  /// Adds to an element of a `sum`. `error`: of this term alone; `common`: its error in common with all
  /// others.
  void add(std::int64_t b, std::int64_t h, std::int64_t row, std::int64_t column, double value, double error,
           double common) const {
    const auto at = static_cast<std::size_t>(index_.at(b, h, row) + column);
    add(output_->value[at], value);
    add(output_->error[at], error * error);
    add(common_[at], common);
  }

  /// Completes a `sum`: `terms` were added to each element. If not `sure`, rounding decides some terms, and
  /// any result is right.
  void finish(std::int64_t terms, const Precision& precision, bool sure) {
    if (!output_) return;
    if (!sure) output_->error.assign(output_->error.size(), Output::any_result);
    for (std::size_t i = 0; i < common_.size() && sure; ++i)
      output_->error[i] = std::sqrt(output_->error[i]) + std::fabs(common_[i]) +
                          precision.sum(terms) * std::fabs(output_->value[i]);
  }

 private:
  /// Heads that share an element run concurrently.
  static void add(double& sum, double term) { std::atomic_ref<double>(sum).fetch_add(term); }

  Index index_;
  Output* output_ = nullptr;
  mutable std::vector<double> common_;  ///< of a `sum`
};

}  // namespace regard::oracle
