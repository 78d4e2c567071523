// Operations on constants.
#pragma once

#include <optional>
#include <span>

#include "function/tree.h"

namespace regard::function {

/// The bits of the result; nothing where fp32 would have to be rounded by a function whose digits differ
/// between machines.
std::optional<std::uint32_t> folded(Operation operation, std::span<const Node> constants);

}  // namespace regard::function
