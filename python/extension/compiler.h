// Hides calls from PyTorch's compiler (torch.compile), which would trace through the package's Python and
// into methods of the extension that it does not know. A call becomes a graph break instead, and runs as in
// eager mode.
#pragma once

#include <nanobind/nanobind.h>

namespace regard::python {

namespace nb = nanobind;

/// Calls a function that the compiler does not trace, nor anything that it calls. There is one such function.
nb::object call_eagerly(nb::handle function, const nb::args& arguments);

/// The compiler recognises only some types of C methods, and calls nanobind's without their object. It
/// recognises an `instancemethod`, which is called in the same way. To be used when the first object is made,
/// not earlier: stubs are generated from nanobind's own methods.
void show_methods(nb::handle type, std::initializer_list<const char*> names);

}  // namespace regard::python
