// The functions that compiled JAX programs call, one for each kind of machine.
#pragma once

#include <nanobind/nanobind.h>

namespace regard::python {

void declare_xla_handlers(nanobind::module_& module);

}  // namespace regard::python
