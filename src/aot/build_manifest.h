// From a manifest to the kernels and outputs that it asks for.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace regard::aot {

enum class Only : std::int32_t {
  build = 0,  ///< everything
  check = 1,  ///< how many kernels it amounts to; nothing is built or written
  list = 2,   ///< the same, and which kernels
};

struct Options {
  std::string text;       ///< the manifest, instead of the file; empty: read the file
  std::string output;     ///< a folder; empty: NAMESPACE-build or FILE-build next to the manifest
  std::int32_t jobs = 0;  ///< compiles at a time; 0: as many as cores and memory allow
  Only only = Only::build;
  /// Called now and then with the progress as JSON. May be empty.
  std::function<void(const std::string& json)> progress;
};

/// What was built, or would be, as JSON (docs/build.md).
Result<std::string> build_manifest(const std::string& manifest, const Options&);

}  // namespace regard::aot
