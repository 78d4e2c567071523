// The hardware resources that a kernel for an AMD GPU takes, read from its code object: what the compiler
// notes there, and the instructions.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "compile/resources.h"

namespace regard {

struct AmdCode {
  std::string chip;                  ///< "gfx942:sramecc+"
  std::span<const std::byte> bytes;  ///< of its one kernel
};

/// An error when the bytes are no code object, or have no kernel or more than one.
Result<AmdCode> amd_code(std::span<const std::byte> code_object);

/// The same errors, and one where the code is not understood or is not for `chip`: options of the compiler's
/// own, from a variable or a settings file, may have asked for another one.
Result<Resources> amd_resources(std::span<const std::byte> code_object, std::string_view chip);

}  // namespace regard
