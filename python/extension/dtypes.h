// The types of elements: as the C ABI, as DLPack and as problem text names them.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <string_view>

#include "regard/regard.h"

namespace regard::python {

namespace nb = nanobind;

/// The word of a dtype in problem text and messages, and back.
const char* dtype_word(regard_dtype dtype);
regard_dtype dtype_from_word(std::string_view word);

nb::dlpack::dtype dlpack_type(regard_dtype dtype);

/// What the elements of this array are where the problem takes `wanted`; what has no counterpart is refused.
regard_dtype dtype_of(nb::dlpack::dtype type, regard_dtype wanted, regard_role role);

}  // namespace regard::python
