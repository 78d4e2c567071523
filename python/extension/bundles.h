// Bundles that installed packages carry.
#pragma once

namespace regard::python {

/// Adds them at the first call; who makes a plan or tells what is here calls it before.
void find_bundles();

}  // namespace regard::python
