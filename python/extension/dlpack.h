// Python arrays through DLPack, without copies, in both directions.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstddef>
#include <string_view>
#include <vector>

#include "torch_tensor.h"

namespace regard::python {

/// The target of the GPU that an array reports to be on, "cuda" or "hip"; null if it is on none. The name is
/// for the message if it does not answer.
const char* gpu_of(nb::handle array, const char* name);

/// An array in a form that DLPack accepts. NumPy arrays of ml_dtypes have types that neither DLPack nor
/// NumPy's buffer protocol exports. GPU arrays are taken without a wait (stream -1), as the caller's stream
/// orders the work.
nb::object exportable(nb::handle array);

/// Its DLPack capsule, or the array itself if it has none. A versioned capsule says whether the array is
/// read-only; an unversioned one is cheaper.
nb::object capsule_of(nb::handle array, bool written);

struct Imported {
  ArrayView view;
  nb::ndarray<nb::ro> owner;  ///< keeps the memory alive
};
/// Raises an error with the array's name if it cannot be taken, or cannot be written to but has to be.
Imported import_array(nb::handle array, const char* name, bool written);
[[noreturn]] void refuse_to_write(const char* name);

/// A new 64-byte aligned array in host memory that any DLPack consumer can take over.
nb::object empty(const std::vector<std::size_t>& shape, std::string_view dtype, bool zeros);

}  // namespace regard::python
