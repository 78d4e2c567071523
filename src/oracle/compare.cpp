#include <algorithm>
#include <cmath>

#include "oracle/number.h"
#include "oracle/oracle.h"
#include "oracle/tolerance.h"

namespace regard::oracle {
namespace {

/// Memory offsets of a strided tensor's elements in row-major order.
class Walk {
 public:
  explicit Walk(const regard_tensor& tensor) : tensor_(tensor) {}
  std::int64_t offset() const { return offset_; }
  void next() {
    for (int dimension = tensor_.rank; dimension-- > 0;) {
      offset_ += tensor_.strides[dimension];
      if (++at_[dimension] < tensor_.shape[dimension]) return;
      offset_ -= tensor_.strides[dimension] * tensor_.shape[dimension];
      at_[dimension] = 0;
    }
  }

 private:
  const regard_tensor& tensor_;
  std::int64_t at_[4] = {}, offset_ = 0;
};

/// The memory offset of one element.
std::int64_t offset_of(const regard_tensor& tensor, std::int64_t flat) {
  std::int64_t offset = 0;
  for (int dimension = tensor.rank; dimension-- > 0; flat /= tensor.shape[dimension])
    offset += flat % tensor.shape[dimension] * tensor.strides[dimension];
  return offset;
}

/// Root mean square of the finite elements: the ordinary size of a number in this output. Some element is at
/// least that large, even where all are equal and the root is rounded up.
double ordinary_size(const std::vector<double>& values) {
  double sum = 0, count = 0, largest = 0;
  for (const double value : values) {
    if (!std::isfinite(value)) continue;
    sum += value * value;
    largest = std::max(largest, std::fabs(value));
    ++count;
  }
  return count > 0 ? std::min(std::sqrt(sum / count), largest) : 0;
}

void compare_element(double actual, double exact, double expected_error, regard_dtype dtype, double ordinary,
                     std::int64_t i, Comparison& result) {
  ++result.compared;
  const auto [absolute, allowed] = judge(dtype, actual, exact, expected_error);
  const bool wrong = !(absolute <= allowed);  // any other NaN is wrong
  if (wrong && result.wrong++ == 0) {
    result.first_wrong = i;
    result.first_expected = exact;
    result.first_actual = actual;
  }
  const double part = absolute / std::max(allowed, 1e-300);
  result.worst = std::isnan(part) ? infinity : std::max(result.worst, part);
  if (absolute > result.max_absolute || std::isnan(absolute)) {
    result.max_absolute = std::isnan(absolute) ? infinity : absolute;
    result.tolerance = allowed;
  }
  if (std::isfinite(exact) && exact != 0 && std::fabs(exact) >= ordinary && std::isfinite(absolute))
    result.max_relative = std::max(result.max_relative, absolute / std::fabs(exact));
}

}  // namespace

std::vector<Comparison> compare(const Problem& problem, const regard_arguments& arguments,
                                const Outputs& outputs) {
  std::vector<Comparison> results;
  for (const auto& [role, output] : outputs) {
    const regard_tensor& tensor = arguments.tensor[role];
    if (!tensor.data) continue;
    Comparison result{};
    result.role = role;
    Walk walk(tensor);
    const double ordinary = ordinary_size(output.value);
    for (std::size_t i = 0; i < output.value.size(); ++i) {
      const std::int64_t flat = output.written ? (*output.written)[i] : static_cast<std::int64_t>(i);
      const std::int64_t offset = output.written ? offset_of(tensor, flat) : walk.offset();
      if (!output.written) walk.next();
      if (output.has_result(i) && output.error[i] != Output::any_result)
        compare_element(decode(tensor.dtype, tensor.data, offset), output.value[i], output.error[i],
                        tensor.dtype, ordinary, flat, result);
    }
    result.ok = result.wrong == 0;
    results.push_back(result);
  }
  static_cast<void>(problem);
  return results;
}

}  // namespace regard::oracle
