// What is read of a code object without running it.
#pragma once

#include <string>

#include "emulator/hip/chips.h"

namespace emulator::hip {

/// Assembler for the end of a kernel's translated source: AMD's metadata of one kernel of a few registers,
/// and a function of two instructions in the chip's code, a matrix product and the end. `compiler`: the name
/// by which the code says what made it.
std::string metadata(const Chip&, const std::string& compiler);

}  // namespace emulator::hip
