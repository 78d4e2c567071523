// Whether a file from somebody else is what a kernel of a target is loaded from.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "base/result.h"
#include "plan/target.h"

namespace regard::aot {

/// Of a CPU a shared object, of a GPU a code object, which has a function of that name for others to find.
/// The error says what it lacks: "it is not an ELF file".
Status check_code_object(std::span<const std::byte> bytes, const Target&, std::string_view symbol);

}  // namespace regard::aot
