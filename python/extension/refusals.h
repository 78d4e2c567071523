// What a call would read wrongly, or lose, and so refuses.
#pragma once

#include <nanobind/nanobind.h>

#include <initializer_list>

#include "torch_tensor.h"

namespace regard::python {

/// Refuses a tensor of PyTorch whose elements PyTorch or NumPy would read where there is no memory, and what
/// stands for a tensor that is not there yet. For whatever is read by others than the kernels.
void check_readable(nb::handle value, const char* name);

/// Refuses an array that has a flaw, or no memory for its elements.
void refuse_flaw(const ArrayView& view, const char* name);

/// Refuses what a graph that PyTorch records would lose: it would hold the results of this one call, or
/// memory that is never filled.
void refuse_traced(std::initializer_list<nb::handle> dicts);
[[noreturn]] void refuse_traced(const char* name);

}  // namespace regard::python
