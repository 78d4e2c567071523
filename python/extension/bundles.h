// Bundles shipped in installed packages.
#pragma once

namespace regard::python {

/// Adds them on the first call. Code that makes a plan or lists kernels calls it first.
void find_bundles();

}  // namespace regard::python
