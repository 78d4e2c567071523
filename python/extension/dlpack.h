// Arrays of Python through DLPack, without copies, in both directions.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstddef>
#include <string_view>
#include <vector>

#include "torch_tensor.h"

namespace regard::python {

/// Whether an array says that it lies on a GPU; the name is for the sentence where it does not answer.
bool on_gpu(nb::handle array, const char* name);

/// An array as DLPack takes it. ml_dtypes' NumPy arrays have types that neither DLPack nor the buffer
/// protocol of NumPy exports; what lies on a GPU is taken without a wait (stream -1), as the caller's stream
/// orders the work.
nb::object exportable(nb::handle array);

/// Its DLPack capsule, or itself where it has none to give. One with a version tells what is read-only; one
/// without costs less.
nb::object capsule_of(nb::handle array, bool written);

struct Imported {
  ArrayView view;
  nb::ndarray<nb::ro> owner;  ///< keeps the memory alive
};
/// What cannot be taken, or not be written to where it has to be, is refused by its name.
Imported import_array(nb::handle array, const char* name, bool written);
[[noreturn]] void refuse_to_write(const char* name);

/// A new 64-byte aligned array in host memory that any DLPack consumer can take over.
nb::object empty(const std::vector<std::size_t>& shape, std::string_view dtype, bool zeros);

}  // namespace regard::python
