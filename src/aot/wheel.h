// The Python output of a build: a wheel with the bundle in a package, which `import regard` finds through its
// entry point in the group regard.bundles.
#pragma once

#include <string>

#include "aot/manifest.h"

namespace regard::aot {

/// "regard_bundle_te-0.1.0+1f0c9a3b-py3-none-any.whl": the version ends with the bundle's SHA-256.
std::string wheel_name(const Manifest&, const std::string& bundle_sum);

/// Writes the wheel; the same bundle gives the same bytes. The path must not exist yet.
Status write_wheel(const Manifest&, const std::string& path, std::string bundle,
                   const std::string& bundle_sum);

}  // namespace regard::aot
