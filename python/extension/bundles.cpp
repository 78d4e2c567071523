#include "bundles.h"

#include <nanobind/nanobind.h>

#include "staying.h"

namespace regard::python {

namespace nb = nanobind;

void find_bundles() {
  static bool looked = false;
  if (looked) return;
  looked =
      staying([] { return nb::cast<bool>(nb::module_::import_("regard.bundles").attr("add_installed")()); });
}

}  // namespace regard::python
