// Options that every CPU kernel is compiled with, in canonical order; a target's own options follow, then
// quick options (compile/quick_options.h), which switch off parts of a compiler.
#pragma once

#include <array>
#include <string_view>

namespace regard {

// Kernels link with no C++ runtime, which exception-handling code would need.
inline constexpr std::array<std::string_view, 7> host_options = {
    "-std=c++20",         "-O2", "-fPIC", "-ffp-contract=fast", "-fno-math-errno", "-fno-exceptions",
    "-fvisibility=hidden"};

}  // namespace regard
