// Element types, as named by the C ABI, by DLPack and by problem text.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <optional>
#include <string_view>

#include "regard/regard.h"

namespace regard::python {

namespace nb = nanobind;

/// The word for a dtype in problem text and messages, and the reverse.
const char* dtype_word(regard_dtype dtype);
regard_dtype dtype_from_word(std::string_view word);

nb::dlpack::dtype dlpack_type(regard_dtype dtype);
/// By the name of a type in PyTorch, ml_dtypes and NumPy: also "int64" and "bool", which no tensor has.
std::optional<nb::dlpack::dtype> type_named(std::string_view name);

/// The element type of this array where the problem takes `required`; types without a counterpart are
/// refused.
regard_dtype dtype_of(nb::dlpack::dtype type, regard_dtype required, regard_role role);

}  // namespace regard::python
