// Memory for every tensor of a small problem, laid out as tensor_spec says.
#pragma once

#include <algorithm>
#include <cstddef>
#include <map>
#include <vector>

#include "problem/tensors.h"

namespace regard {

struct TensorSet {
  explicit TensorSet(const Problem& of) : problem(of) {
    for (int i = 0; i < REGARD_ROLE_COUNT; ++i) {
      const auto role = static_cast<regard_role>(i);
      const TensorSpec spec = tensor_spec(problem, role);
      if (spec.use == REGARD_UNUSED) continue;
      std::size_t count = 1;
      for (const std::int64_t size : spec.shape) count *= static_cast<std::size_t>(size);
      memory[role].resize(count * bytes_of(spec.dtype) + 8);
      regard_tensor& tensor = arguments.tensor[role];
      tensor.data = memory[role].data();
      tensor.dtype = spec.dtype;
      tensor.rank = static_cast<std::int32_t>(spec.shape.size());
      std::copy(spec.shape.begin(), spec.shape.end(), tensor.shape);
      std::copy(spec.strides.begin(), spec.strides.end(), tensor.strides);
    }
  }

  regard_tensor& operator[](regard_role role) { return arguments.tensor[role]; }
  void move(regard_role role, std::ptrdiff_t bytes) {
    arguments.tensor[role].data = static_cast<std::byte*>(arguments.tensor[role].data) + bytes;
  }
  template <class Value = std::int32_t>
  void write(regard_role role, const std::vector<Value>& values) {
    std::copy(values.begin(), values.end(), static_cast<Value*>(arguments.tensor[role].data));
  }

  Problem problem;
  regard_arguments arguments = REGARD_ARGUMENTS_INIT;
  std::map<regard_role, std::vector<std::byte>> memory;
};

}  // namespace regard
