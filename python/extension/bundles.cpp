#include "bundles.h"

#include <nanobind/nanobind.h>

namespace regard::python {

namespace nb = nanobind;

void find_bundles() {
  static bool looked = false;
  if (looked) return;
  looked = true;  // also where it fails: a package that is broken would fail each call
  nb::module_::import_("regard.bundles").attr("add_installed")();
}

}  // namespace regard::python
