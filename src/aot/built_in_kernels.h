// The library's built-in kernels, made by regard-build: every kernel of a list is rendered, compiled to an
// object by the host compiler, and named in a table.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace regard::aot {

struct Order {
  std::vector<std::string> kernels;  ///< their texts
  std::string compiler;              ///< absolute path
  std::string folder;                ///< everything is written below it, and nothing elsewhere
  int jobs = 1;
};

/// Writes <folder>/<symbol>.cpp and .o for each kernel, and <folder>/built_in_table.cpp, which defines
/// regard::built_in_kernels(). Unchanged kernels are not compiled again. Every kernel is tried; the error
/// lists all failures. The result is the list of object files, sorted by kernel.
Result<std::vector<std::string>> compile_built_in(const Order&);

}  // namespace regard::aot
