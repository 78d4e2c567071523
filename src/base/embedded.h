// Files of this repository that are embedded in the library: kernels/**, targets/*.toml, profiles/*.toml, and
// the header of its C ABI, from which `regard build` makes the headers of other libraries. With the setting
// REGARD_DATA_DIR all but the header are read from that folder instead (for work on kernels).
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace regard {

struct EmbeddedFile {
  std::string_view path;  ///< relative to the repository, e.g. "kernels/cpu/forward.cpp"
  std::string_view text;
};

/// All embedded files in path order (generated at build time by cmake/embed.cmake).
std::span<const EmbeddedFile> embedded_files();

/// The text of one file; REGARD_DATA_DIR takes precedence over the embedded copy. Error `invalid` when there
/// is no such file.
Result<std::string> data_file(std::string_view path);

}  // namespace regard
