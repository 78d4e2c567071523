// A compiled kernel as an entry of a cache or a bundle: its identity, and how it is made.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/digest.h"
#include "base/result.h"
#include "cache/cache.h"
#include "compile/render.h"
#include "compile/resources.h"
#include "compile/toolchain.h"
#include "plan/kernel_key.h"
#include "plan/target.h"

namespace regard {

/// What it is compiled from, independent of the compiler: binaries of one source take the same arguments and
/// compute the same results.
Digest source_of(const KernelKey&, const Rendered&);

/// Its identity when compiled by a compiler with that identity.
Digest identity_of(const KernelKey&, const Rendered&, std::string_view compiler);

/// The part of a kernel's manifest that is the same wherever and whenever it is compiled: no times. For a GPU
/// kernel, it includes what its compiler reported.
std::string lasting_manifest(const KernelKey&, const Rendered&, std::string_view compiler,
                             const std::optional<Resources>&);

/// Compiles it. Also fails where the kernel needs more registers or shared memory than its target has.
Result<CacheEntry> compile_entry(const KernelKey&, const Target&, const Rendered&, Toolchain&);

}  // namespace regard
