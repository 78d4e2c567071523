// Calls into objects of other libraries. An error that they raise means that they have no answer, except for
// Ctrl-C, SystemExit and out-of-memory errors, which reach the caller unchanged.
#pragma once

#include <nanobind/nanobind.h>

namespace regard::python {

namespace nb = nanobind;

/// Rethrows Python's error unless it only means that there is no answer.
void pass_on(const nb::python_error& error);
/// The same for the error that is set.
void pass_on_error();
/// The same, and clears any other error.
void forget_error();

/// hasattr, which in C takes every error for a no.
bool has(nb::handle object, const char* name);

}  // namespace regard::python
