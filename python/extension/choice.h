// A Python function as the caller's own choice of kernels (regard_choose_by).
#pragma once

#include <nanobind/nanobind.h>

namespace regard::python {

namespace nb = nanobind;

/// Forgets what the function has raised in this thread; throws that.
void forget_choice_error();
void throw_choice_error();

/// Makes a call that may ask the function, and raises what that raised.
template <class Call>
decltype(auto) asking_choice(const Call& call) {
  forget_choice_error();
  try {
    return call();
  } catch (nb::python_error&) {
    throw_choice_error();
    throw;
  }
}

void declare_choice(nb::module_& module);

}  // namespace regard::python
