// CUDA C++ to C++: what the host's compiler cannot read becomes calls of the emulator.
#pragma once

#include <string>
#include <string_view>

namespace emulator {

/// `source` is preprocessed, with one kernel in it. Its `asm` statements, whose text is PTX, become calls
/// that execute them, its shared variables references into the block's memory; and behind it stands what
/// launches it, `emulator_launch`. Throws std::runtime_error.
std::string translate(std::string_view source);

}  // namespace emulator
