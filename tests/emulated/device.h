// The emulated GPU of this program: tests/emulator has the driver and the compiler that it finds in place of
// NVIDIA's.
#pragma once

#include <string>
#include <vector>

namespace regard::test {

/// What the emulated device runs, by EMULATED_CAPABILITY: "sm_90a", or another CUDA target.
std::string emulated_target();

}  // namespace regard::test
