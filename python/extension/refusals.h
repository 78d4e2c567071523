// Arguments that a call would misread or lose, and therefore refuses.
#pragma once

#include <nanobind/nanobind.h>

#include <initializer_list>

#include "torch_tensor.h"

namespace regard::python {

/// Refuses a PyTorch tensor whose elements PyTorch or NumPy would read where there is no memory, and
/// placeholders for tensors. For tensors that are read by anything other than the kernels.
void check_readable(nb::handle value, const char* name);

/// Refuses an array that has a flaw, or that has no memory for its elements.
void refuse_flaw(const ArrayView& view, const char* name);

/// Refuses calls that a graph recorded by PyTorch would lose: it would hold the results of this one call, or
/// memory that is never filled.
void refuse_traced(std::initializer_list<nb::handle> dicts);
[[noreturn]] void refuse_traced(const char* name);

}  // namespace regard::python
