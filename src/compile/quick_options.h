// Options with which a host compiler makes equally fast kernels in less time.
#pragma once

#include <span>
#include <string_view>

namespace regard {

/// For a compiler with this identity (compiler_identity.h); none for one that is neither gcc nor clang.
/// Kernels write their loops over registers unrolled and their functions inlined or called, so there is
/// little for much of a compiler's optimizer to find. The options follow a kernel's own, also for built-in
/// kernels: the same compiler gives both the same bits.
std::span<const std::string_view> quick_options(std::string_view compiler_identity);

}  // namespace regard
