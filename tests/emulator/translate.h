// CUDA C++ to C++: code that the host's compiler cannot compile becomes calls of the emulator.
#pragma once

#include <string>
#include <string_view>

namespace emulator {

/// `source` is preprocessed and contains one kernel. Its `asm` statements, whose text is PTX, become calls
/// that execute them, its shared variables become references into the block's memory, and after the kernel
/// comes the function that launches it, `emulator_launch`. Throws std::runtime_error.
std::string translate(std::string_view source);

}  // namespace emulator
