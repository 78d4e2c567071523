// Which kernel sources exist, so that a plan never names a stage that cannot be had.
#pragma once

#include <array>
#include <span>
#include <string_view>

#include "plan/target.h"

namespace regard {

/// Folders below kernels/.
inline constexpr std::array<std::string_view, 3> source_folders = {"cpu", "sm90", "portable"};

/// Every stem that a recipe names.
std::span<const std::string_view> kernel_stems();

/// Whether kernels/<folder of the target>/<stem>.* travels with the library.
bool has_source(const Target&, std::string_view stem);

}  // namespace regard
