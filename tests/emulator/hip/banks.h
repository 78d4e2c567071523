// Bank conflicts of LDS: an instruction of a wave is done in phases, and among the lanes of one phase each
// bank gives one 32-bit word a clock. Which lanes form a phase: measured by others on gfx950 (HipKittens,
// analysis/paper_experiments/phases); neighbours on other chips.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "emulator/hip/chips.h"

namespace emulator::hip {

/// One lane of an access; `lane` of the wave.
struct LaneAddress {
  unsigned lane;
  std::uint32_t address;
};

struct Clocks {
  unsigned taken = 0, least = 0;  ///< of all phases; `least`: without conflicts
  unsigned worst = 0;             ///< of one phase
};

/// `bytes`: of a lane, at most 16.
Clocks clocks_of(const Chip&, unsigned bytes, bool write, std::span<const LaneAddress>);

}  // namespace emulator::hip
