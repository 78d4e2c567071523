// An output in its logical shape, filled row by row.
#pragma once

#include <vector>

#include "oracle/inputs.h"
#include "oracle/number.h"
#include "oracle/oracle.h"

namespace regard::oracle {

/// Does nothing for a role that the problem does not write.
class Writer {
 public:
  Writer() = default;
  /// Elements that are never set have no result, those of a `sum` over heads are 0.
  Writer(const Problem& problem, regard_role role, Outputs& outputs, bool sum = false) {
    const TensorSpec spec = tensor_spec(problem, role);
    if (spec.use != REGARD_OUTPUT) return;
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
  }

  explicit operator bool() const { return output_ != nullptr; }

  void set(std::int64_t b, std::int64_t h, std::int64_t row, std::int64_t column, double value,
           double error) const {
    if (!output_) return;
    const auto at = static_cast<std::size_t>(index_.at(b, h, row) + column);
    output_->value[at] = value;
    output_->error[at] = error;
  }

  /// The elements themselves, for outputs that several heads add to.
  double& value(std::int64_t b, std::int64_t h, std::int64_t row, std::int64_t column) const {
    return output_->value[static_cast<std::size_t>(index_.at(b, h, row) + column)];
  }
  double& error(std::int64_t b, std::int64_t h, std::int64_t row, std::int64_t column) const {
    return output_->error[static_cast<std::size_t>(index_.at(b, h, row) + column)];
  }

 private:
  Index index_;
  Output* output_ = nullptr;
};

}  // namespace regard::oracle
