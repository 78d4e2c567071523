// The state of the emulated HIP runtime that its functions share.
#pragma once

#include <string>

#include "emulator/hip/chips.h"

namespace emulator::hip {

using Code = int;
constexpr Code success = 0, invalid_value = 1, out_of_memory = 2, invalid_image = 200, no_binary = 209,
               not_found = 500, launch_failed = 719;
constexpr int devices = 2;

/// `code`; hipGetErrorString on this thread says `text` from now on.
Code fail(Code code, const std::string& text);

/// Of the thread's current device. EMULATED_CHIP=gfx950 makes the first device one of that chip.
const Chip& current_chip();

}  // namespace emulator::hip
