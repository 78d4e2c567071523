#include "bundles.h"

#include <nanobind/nanobind.h>

#include "finalizing.h"

namespace regard::python {

namespace nb = nanobind;

void find_bundles() {
  static bool looked = false;
  if (looked) return;
  looked = hang_if_finalizing(
      [] { return nb::cast<bool>(nb::module_::import_("regard.bundles").attr("add_installed")()); });
}

}  // namespace regard::python
