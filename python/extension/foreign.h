// Calls into objects of other libraries. An error that they raise means that they have no answer, except for
// Ctrl-C, SystemExit and lack of memory, which reach the caller unchanged.
#pragma once

#include <nanobind/nanobind.h>

namespace regard::python {

namespace nb = nanobind;

/// Rethrows Python's error if it does not just mean that there is no answer.
void pass_on(const nb::python_error& error);
/// The same of the error that is set.
void pass_on_error();
/// The same, and any other one is forgotten.
void forget_error();

/// hasattr, which in C treats every error as a no.
bool has(nb::handle object, const char* name);

}  // namespace regard::python
