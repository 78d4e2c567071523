// The outputs `shared` and `static` of a build: a library with the C ABI under the namespace and the bundle
// in it, its header, its CMake package and its pkg-config file. They are laid out as in an install prefix,
// and can be moved.
#pragma once

#include <string>
#include <vector>

#include "aot/linker.h"
#include "aot/manifest.h"
#include "base/result.h"

namespace regard::aot {

struct LibraryFile {
  Output output;
  std::string name;  ///< in the folder
};

/// Links the libraries that the manifest asks for into the folder, from the bundle that is in it.
Result<std::vector<LibraryFile>> write_libraries(const Manifest&, const std::string& folder, const Linker&);

/// All files that it writes, by their names in the folder.
std::vector<std::string> library_files(const Manifest&);

}  // namespace regard::aot
