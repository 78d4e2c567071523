// The elements of a strided tensor in host memory, in row-major order of its logical shape.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "problem/tensors.h"
#include "regard/regard.h"

namespace regard {

inline std::int64_t elements_of(const regard_tensor& tensor) {
  std::int64_t count = 1;
  for (int axis = 0; axis < tensor.rank; ++axis) count *= tensor.shape[axis];
  return count;
}

using ElementIndex = std::array<std::int64_t, 4>;

/// Calls body(index, offset in memory) for each element, with its number in this order.
template <class Body>
void for_each_element(const regard_tensor& tensor, Body body) {
  const std::int64_t elements = elements_of(tensor);
  ElementIndex at{};
  std::int64_t offset = 0;
  for (std::int64_t index = 0; index < elements; ++index) {
    body(index, offset);
    for (int axis = tensor.rank; axis-- > 0;) {
      offset += tensor.strides[axis];
      if (++at[axis] < tensor.shape[axis]) break;
      offset -= tensor.strides[axis] * tensor.shape[axis];
      at[axis] = 0;
    }
  }
}

/// Where the element of that number is in the logical shape, and in memory.
inline ElementIndex place_of(const regard_tensor& tensor, std::int64_t index) {
  ElementIndex at{};
  for (int axis = tensor.rank; axis-- > 0; index /= tensor.shape[axis]) at[axis] = index % tensor.shape[axis];
  return at;
}
inline std::int64_t offset_of(const regard_tensor& tensor, std::int64_t index) {
  const ElementIndex at = place_of(tensor, index);
  std::int64_t offset = 0;
  for (int axis = 0; axis < tensor.rank; ++axis) offset += at[axis] * tensor.strides[axis];
  return offset;
}

/// Strides for memory without gaps.
inline void make_row_major(regard_tensor& tensor) {
  std::int64_t elements = 1;
  for (int axis = tensor.rank; axis-- > 0;) {
    tensor.strides[axis] = elements;
    elements *= tensor.shape[axis];
  }
}

/// A copy of the elements without gaps.
inline std::vector<std::byte> row_major(const regard_tensor& tensor) {
  const std::size_t size = bytes_of(tensor.dtype);
  std::vector<std::byte> elements(static_cast<std::size_t>(elements_of(tensor)) * size);
  const auto* const from = static_cast<const std::byte*>(tensor.data);
  for_each_element(tensor, [&](std::int64_t index, std::int64_t offset) {
    std::memcpy(elements.data() + static_cast<std::size_t>(index) * size,
                from + offset * static_cast<std::int64_t>(size), size);
  });
  return elements;
}

}  // namespace regard
