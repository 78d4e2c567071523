// The bundle of a build: all its kernels in one file.
#pragma once

#include <string>
#include <vector>

#include "aot/compile_all.h"
#include "aot/manifest.h"

namespace regard::aot {

/// "te.bundle": after the namespace, or else the manifest's file.
std::string bundle_name(const Manifest&);

/// The entries move into the file.
Status write_bundle_output(const Manifest&, const std::string& path, std::vector<Built>& kernels);

}  // namespace regard::aot
