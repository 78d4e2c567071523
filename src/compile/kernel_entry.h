// A compiled kernel as an entry of a cache or a bundle: what it is known by, and how it is made.
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

/// What it is compiled from, whatever the compiler: binaries of one source take the same arguments and
/// compute the same.
Digest source_of(const KernelKey&, const Rendered&);

/// What a compiler of that identity makes of it.
Digest identity_of(const KernelKey&, const Rendered&, std::string_view compiler);

/// What a manifest says of a kernel wherever and whenever it is compiled: no times. Of a GPU's kernel with
/// what its compiler reported.
std::string lasting_manifest(const KernelKey&, const Rendered&, std::string_view compiler,
                             const std::optional<Resources>&);

/// Compiles it. An error, too, where it asks for more registers or shared memory than its target has.
Result<CacheEntry> compile_entry(const KernelKey&, const Target&, const Rendered&, Toolchain&);

}  // namespace regard
