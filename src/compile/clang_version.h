// What versions of clang know of AMD GPUs.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace regard {

/// Older versions copy accumulators back and forth in the loops of kernels.
inline constexpr int oldest_clang = 19;

/// The newest major version in what identifies a compiler; 0 if it is no clang.
int clang_version(std::string_view compiler_identity);

/// The chip that the options name, "gfx942"; empty if they name none.
std::string_view chip_of(std::span<const std::string> options);

/// An error if a compiler of that identity does not know the chip that the options name. `compiler` begins
/// its message: "'/usr/bin/clang-19' is".
Status knows_chip(std::string_view compiler_identity, std::span<const std::string> options,
                  std::string_view compiler);

}  // namespace regard
