// What PyTorch's compiler (torch.compile) must not look into: it would trace through the package's Python,
// and into methods of the extension that it does not know. A call is a graph break instead, and runs as it
// does without.
#pragma once

#include <nanobind/nanobind.h>

namespace regard::python {

namespace nb = nanobind;

/// Calls a function that the compiler leaves alone, with all that it calls. There is one such function.
nb::object call_eagerly(nb::handle function, const nb::args& arguments);

/// Of methods in C the compiler knows some types, and calls those of nanobind without their object. As an
/// `instancemethod`, which is called alike, it knows them. For when the first object is made: stubs are
/// written from the methods of nanobind.
void show_methods(nb::handle type, std::initializer_list<const char*> names);

}  // namespace regard::python
