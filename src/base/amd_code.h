// Which of AMD's chips run a code object.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "base/result.h"

namespace regard::amd {

/// A target's code runs on the chip of its name; that of a generic target runs on its family's.
bool runs_on_chip(std::string_view target, std::string_view chip);

/// The generic target whose code runs on a chip, which may have no target of its own; empty if there is none.
std::string_view generic_target_of(std::string_view chip);

/// The target that a code object was compiled for. The error says what is wrong with the bytes: "it is
/// truncated".
Result<std::string_view> target_of(std::span<const std::byte> code_object);

}  // namespace regard::amd
