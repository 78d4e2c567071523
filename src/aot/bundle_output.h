// The bundle of a build: all its kernels in one file.
#pragma once

#include <string>
#include <vector>

#include "aot/compile_all.h"
#include "aot/manifest.h"

namespace regard::aot {

/// "te.bundle": named after the namespace, or else after the manifest's file.
std::string bundle_name(const Manifest&);

/// The entries are moved into the file.
Status write_bundle_output(const Manifest&, const std::string& path, std::vector<Built>& kernels);

}  // namespace regard::aot
