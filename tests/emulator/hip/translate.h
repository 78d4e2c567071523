// HIP's C++ for AMD's GPUs to the host compiler's: code that this cannot compile becomes calls of the
// emulator.
#pragma once

#include <string>
#include <string_view>

namespace emulator::hip {

/// `source` is preprocessed and contains one kernel. Its alias of a pointer to LDS becomes a class that
/// checks, its shared variables become references into the block's LDS, and after the kernel comes the
/// function that launches it, `emulator_launch`. Throws std::runtime_error.
std::string translate(std::string_view source);

}  // namespace emulator::hip
