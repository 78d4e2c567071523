#include "status.h"

namespace regard::python {
namespace {

nb::object class_of(regard_status status) {
  nb::object classes = nb::module_::import_("regard.errors").attr("BY_STATUS");
  return classes[nb::str(regard_status_name(status))];
}

}  // namespace

void raise(regard_status status, const std::string& sentence) {
  PyErr_SetString(class_of(status).ptr(), sentence.c_str());
  throw nb::python_error();
}

void raise_from(nb::python_error& cause, regard_status status, const std::string& sentence) {
  nb::raise_from(cause, class_of(status), "%s", sentence.c_str());
  throw nb::python_error();  // not reached
}

void raise_type(const std::string& sentence) {
  PyErr_SetString(PyExc_TypeError, sentence.c_str());
  throw nb::python_error();
}

}  // namespace regard::python
