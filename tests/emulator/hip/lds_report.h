// The LDS instructions of a launch by their place in the kernel's source, for tests and for people.
#pragma once

#include <map>
#include <string>

#include "emulator/hip/wave.h"

namespace emulator::hip {

/// A line for each place: "read 16 instructions=64 clocks=256 least=256 worst=1 at kernel.hip:12 <
/// kernel.hip:30", with the calls by which the place was reached.
std::string lds_report(const std::map<const void*, LdsCount>&);

}  // namespace emulator::hip
