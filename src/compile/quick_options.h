// Options by which a host compiler makes kernels that are as fast in less time.
#pragma once

#include <span>
#include <string_view>

namespace regard {

/// For a compiler with this identity (compiler_identity.h); none for one that is neither gcc nor clang.
/// Kernels write their loops over registers unrolled and their functions inlined or called, so much of what
/// compilers look for is not there. They stand behind a kernel's own options, for kernels that are built in
/// too: by one compiler both have the same bits.
std::span<const std::string_view> quick_options(std::string_view compiler_identity);

}  // namespace regard
