// PyTorch's tensors read through their own methods, which costs a tenth of what their DLPack export does.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <array>
#include <cstdint>
#include <optional>

namespace regard::python {

namespace nb = nanobind;

/// Memory of an array of up to 4 dimensions; strides in elements.
struct ArrayView {
  void* data = nullptr;
  nb::dlpack::dtype type{};
  int device = 0;  // as DLPack counts them
  int rank = 0;
  std::array<std::int64_t, 4> shape{}, strides{};
};

/// Nothing for whatever is no plain tensor (a subclass, sparse, of an unusual type or device, without
/// memory): DLPack knows what to say about it.
std::optional<ArrayView> view_of_torch(nb::handle array);

/// Whether this is a tensor of PyTorch, plain or of a subclass.
bool is_torch(nb::handle array);

/// Whether this is a plain tensor in a GPU's memory; nothing where view_of_torch has nothing.
std::optional<bool> torch_on_gpu(nb::handle array);

}  // namespace regard::python
