// Arguments that are text or integers. Anything else is refused with a sentence of ours: the binding's own
// message is not one.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <optional>
#include <string>

namespace regard::python {

namespace nb = nanobind;

/// Every text that goes to the C ABI, which would end it at a NUL: text that contains one is refused.
std::string text_of(nb::handle value, const char* name);
/// Nothing for None.
std::optional<std::string> optional_text_of(nb::handle value, const char* name);

std::uint64_t unsigned_of(nb::handle value, const char* name);
int int_of(nb::handle value, const char* name);

/// Objects of this type answer == themselves even if a NumPy array is on the left, which would compare each
/// of its elements.
void answers_arrays(nb::handle type);

/// "of type list", for sentences.
std::string type_of(nb::handle value);

}  // namespace regard::python
