// Options that every CPU kernel is compiled with, in canonical order; a target adds its own behind them, and
// quick options (compile/quick_options.h) what a compiler is to leave out.
#pragma once

#include <array>
#include <string_view>

namespace regard {

// Kernels link with no C++ runtime, which code for exceptions would ask for.
inline constexpr std::array<std::string_view, 7> host_options = {
    "-std=c++20",         "-O2", "-fPIC", "-ffp-contract=fast", "-fno-math-errno", "-fno-exceptions",
    "-fvisibility=hidden"};

}  // namespace regard
