// The compiler options that all kernels for AMD GPUs get, in canonical order; a target's own options follow.
#pragma once

#include <array>
#include <string_view>

namespace regard {

// Multiply-adds form as with NVIDIA's compilers, and divisions and denormals are by default as exact. Without
// the third one gfx90a adds fp32 in memory by a loop around a compare and swap. Without the last two the
// matrix products with V move after the branches that follow them, their operands stay in registers until
// then, and kernels for RDNA spill.
inline constexpr std::array<std::string_view, 6> hip_options = {
    "-std=c++20",           "-O3", "-munsafe-fp-atomics", "-ffp-contract=fast-honor-pragmas", "-mllvm",
    "-disable-machine-sink"};

}  // namespace regard
