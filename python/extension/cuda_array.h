// GPU arrays described by __cuda_array_interface__ (versions 2 and 3) and not by DLPack.
#pragma once

#include <optional>

#include "torch_tensor.h"

namespace regard::python {

struct CudaArray {
  ArrayView view;
  bool read_only = false;
  /// The stream in which work on the array may be pending: to be waited for, or to run in.
  std::optional<void*> stream;
};

/// Whether an array has this interface and no DLPack.
bool is_cuda_array(nb::handle array);
/// The view that the interface describes; `name` is how messages refer to the array.
CudaArray cuda_array(nb::handle array, const char* name);

/// Whether both are the same stream: CUDA's default stream has two numbers.
bool is_same_stream(void* one, void* other);

}  // namespace regard::python
