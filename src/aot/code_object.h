// Checks whether a file made elsewhere is something that a target's kernel can be loaded from.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "base/result.h"
#include "plan/target.h"

namespace regard::aot {

/// For a CPU it must be a shared object, for a GPU a code object, and it must export a function of that name.
/// The error says what is wrong: "its code is for gfx1100".
Status check_code_object(std::span<const std::byte> bytes, const Target&, std::string_view symbol);

}  // namespace regard::aot
