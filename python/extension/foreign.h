// Questions to objects of other libraries. What they raise means that they have no answer, unless it has
// nothing to do with them: Ctrl-C, SystemExit and lack of memory reach the caller as they are.
#pragma once

#include <nanobind/nanobind.h>

namespace regard::python {

namespace nb = nanobind;

/// Throws Python's error anew where it is no answer.
void pass_on(const nb::python_error& error);
/// The same of the error that is set.
void pass_on_error();
/// The same, and any other one is forgotten.
void forget_error();

/// hasattr, which in C takes every error for a no.
bool has(nb::handle object, const char* name);

}  // namespace regard::python
