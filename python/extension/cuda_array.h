// Arrays on a GPU that say where they lie through __cuda_array_interface__ (versions 2 and 3), and not
// through DLPack.
#pragma once

#include <optional>

#include "torch_tensor.h"

namespace regard::python {

struct CudaArray {
  ArrayView view;
  bool read_only = false;
  /// In which work on the array may be under way: to be waited for, or to run in.
  std::optional<void*> stream;
};

/// Whether an array has this interface and no DLPack.
bool is_cuda_array(nb::handle array);
/// What it says; `name` is what messages call it.
CudaArray cuda_array(nb::handle array, const char* name);

/// Whether both are one stream: CUDA's default one has two numbers.
bool is_same_stream(void* one, void* other);

}  // namespace regard::python
