#include "compiler.h"

#include <map>

#include "finalizing.h"
#include "foreign.h"

namespace regard::python {

nb::object call_eagerly(nb::handle function, const nb::args& arguments) {
  static PyObject* const dynamo = PyUnicode_InternFromString("torch._dynamo");
  // The functions as wrapped by the compiler's module. There are few, and none is freed.
  static std::map<PyObject*, PyObject*> disabled;
  PyObject* called = function.ptr();
  if (const auto known = disabled.find(called); known != disabled.end()) {
    called = known->second;
  } else {
    // Another thread may be importing it: whatever is missing now is looked up again at the next call.
    PyObject* const module = PyDict_GetItem(PyImport_GetModuleDict(), dynamo);
    if (module != nullptr && has(module, "disable")) {
      called = nb::object(nb::handle(module).attr("disable")(function)).release().ptr();
      disabled.emplace(function.inc_ref().ptr(), called);
    }
  }
  nb::object result =
      nb::steal(hang_if_finalizing([&] { return PyObject_CallObject(called, arguments.ptr()); }));
  if (!result.is_valid()) throw nb::python_error();
  return result;
}

void show_methods(nb::handle type, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    const nb::object method = type.attr("__dict__")[name];
    type.attr(name) = nb::steal(PyInstanceMethod_New(method.ptr()));
  }
}

}  // namespace regard::python
