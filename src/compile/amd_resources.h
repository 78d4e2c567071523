// The hardware resources that a kernel for an AMD GPU takes, read from its code object: what the compiler
// notes there, and the instructions.
#pragma once

#include <cstddef>
#include <span>

#include "compile/resources.h"

namespace regard {

/// An error when the bytes are no code object, or have no kernel or more than one.
Result<Resources> amd_resources(std::span<const std::byte> code_object);

}  // namespace regard
