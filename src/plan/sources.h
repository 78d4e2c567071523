// Which kernel sources exist, so that a plan never names a stage that cannot be had.
#pragma once

#include <span>
#include <string_view>

namespace regard {

/// Every stem that a recipe names.
std::span<const std::string_view> kernel_stems();

/// Whether kernels/<folder>/<stem>.* travels with the library.
bool has_source(std::string_view folder, std::string_view stem);

}  // namespace regard
