// The Python output of a build: a wheel with the bundle in a package, which `import regard` finds by its
// entry point in the group regard.bundles.
#pragma once

#include <string>

#include "aot/manifest.h"

namespace regard::aot {

/// "regard_bundle_te-0.1.0+1f0c9a3b-py3-none-any.whl": the version ends with the bundle's SHA-256.
std::string wheel_name(const Manifest&, const std::string& bundle_sum);

/// Writes the wheel, the same bytes for the same bundle. Where nobody has a file of this name.
Status write_wheel(const Manifest&, const std::string& path, std::string bundle,
                   const std::string& bundle_sum);

}  // namespace regard::aot
