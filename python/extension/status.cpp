#include "status.h"

namespace regard::python {

void raise(regard_status status, const std::string& sentence) {
  nb::object classes = nb::module_::import_("regard.errors").attr("BY_STATUS");
  nb::object type = classes[nb::str(regard_status_name(status))];
  PyErr_SetString(type.ptr(), sentence.c_str());
  throw nb::python_error();
}

}  // namespace regard::python
