#include "foreign.h"

namespace regard::python {

namespace {

bool is_answer(PyObject* type) {
  return PyErr_GivenExceptionMatches(type, PyExc_Exception) != 0 &&
         PyErr_GivenExceptionMatches(type, PyExc_MemoryError) == 0;
}

}  // namespace

void pass_on(const nb::python_error& error) {
  if (!is_answer(error.type().ptr())) throw nb::python_error(error);
}

void pass_on_error() {
  PyObject* const type = PyErr_Occurred();
  if (type != nullptr && !is_answer(type)) throw nb::python_error();
}

void forget_error() {
  pass_on_error();
  PyErr_Clear();
}

bool has(nb::handle object, const char* name) {
  const nb::object found = nb::steal(PyObject_GetAttrString(object.ptr(), name));
  if (!found.is_valid()) forget_error();
  return found.is_valid();
}

}  // namespace regard::python
