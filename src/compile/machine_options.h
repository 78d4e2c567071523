// Options that kernels need on the processor that a host compiler compiles for.
#pragma once

#include <span>
#include <string_view>

namespace regard {

/// For a compiler with this identity (compiler_identity.h), which names the processor. They are also for
/// built-in kernels.
std::span<const std::string_view> machine_options(std::string_view compiler_identity);

}  // namespace regard
