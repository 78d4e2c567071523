#include "oracle/rope.h"

#include <algorithm>
#include <cmath>

#include "oracle/number.h"
#include "problem/tensors.h"

namespace regard::oracle {

Rotation::Rotation(const Problem& problem, const regard_arguments& arguments)
    : problem_(problem), arguments_(arguments) {
  if (problem.rope != Rope::none) rows_ = tensor_spec(problem, REGARD_ROPE_COS).shape[0];
}

double Rotation::read(regard_role role, std::int64_t row, std::int64_t column) const {
  const regard_tensor& tensor = arguments_.tensor[role];
  return decode(tensor.dtype, tensor.data, row * tensor.strides[0] + column);
}

void Rotation::rotate(std::int64_t position, double* x, double* size) const {
  if (rows_ == 0) return;
  const std::int64_t row = std::clamp<std::int64_t>(position, 0, rows_ - 1), half = problem_.rotary / 2;
  const std::int64_t start = first_rotated(problem_);
  const bool interleaved = problem_.rope == Rope::interleaved;
  for (std::int64_t i = 0; i < half; ++i) {
    const std::int64_t first = start + (interleaved ? 2 * i : i),
                       second = start + (interleaved ? 2 * i + 1 : i + half);
    const double cos = read(REGARD_ROPE_COS, row, i), sin = read(REGARD_ROPE_SIN, row, i);
    const double a = x[first], b = x[second];
    x[first] = a * cos - b * sin;
    x[second] = a * sin + b * cos;
    if (size == nullptr) continue;
    size[first] = std::fabs(a * cos) + std::fabs(b * sin);
    size[second] = std::fabs(a * sin) + std::fabs(b * cos);
  }
}

}  // namespace regard::oracle
