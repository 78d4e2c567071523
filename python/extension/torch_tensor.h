// PyTorch's tensors read through the functions that their class gives away in C (DLPack 1.3), or, in older
// versions, through their own methods: a hundredth, or a tenth, of what their DLPack export costs.
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
  int device_number = 0;
  bool requires_gradient = false;
  int rank = 0;
  std::array<std::int64_t, 4> shape{}, strides{};
};

/// Row-major without gaps.
bool is_contiguous(const ArrayView&);

/// Nothing for whatever is no plain tensor (a subclass, sparse, of an unusual type or device, without
/// memory): DLPack knows what to say about it.
std::optional<ArrayView> view_of_torch(nb::handle array);

/// Whether this is a tensor of PyTorch, plain or of a subclass.
bool is_torch(nb::handle array);

/// PyTorch's current stream of that GPU, where its version says so in C.
std::optional<void*> torch_stream(int device_number);

/// New memory of PyTorch on the device of `like`, of that shape (a tuple) and dtype (None: that of `like`).
nb::object torch_memory(nb::handle like, nb::handle shape, nb::handle dtype, bool zeros);
/// The same in shape and dtype, too.
nb::object torch_memory_like(nb::handle contiguous);

/// Bytes on the device of `like`, and where they are.
nb::object torch_bytes(nb::handle like, std::int64_t bytes, void*& address);

/// Whether this is a plain tensor in a GPU's memory; nothing where view_of_torch has nothing.
std::optional<bool> torch_on_gpu(nb::handle array);

}  // namespace regard::python
