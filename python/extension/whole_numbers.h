// Arrays of 32-bit integers that are given as lists or as 64-bit integers, the default of most libraries.
#pragma once

#include <cstdint>
#include <memory>

#include "regard/regard.h"
#include "torch_tensor.h"

namespace regard::python {

nb::object array_of_list(nb::handle list, const char* name);

bool is_int64(nb::dlpack::dtype type);
using Numbers = std::unique_ptr<std::int32_t[]>;
/// As int32 in `memory`, contiguous. If the shape differs from `expected` nothing is read: the check of the
/// tensor refuses it.
ArrayView narrowed(const ArrayView& wide, const regard_tensor& expected, const char* name, Numbers& memory);

}  // namespace regard::python
