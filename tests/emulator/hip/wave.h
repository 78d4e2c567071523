// What is remembered of the lanes of a wave, and of their accesses to LDS: those of one instruction belong
// together.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <vector>

#include "emulator/hip/banks.h"

namespace emulator::hip {

struct LaneState {
  bool unreleased = false;      ///< it has accessed LDS since its last release
  bool unacquired = false;      ///< it has met the block since its last acquisition
  bool released_global = true;  ///< its last release ordered global memory too
};

enum class LdsUse { read, write, copy };

/// The accesses of one place of the kernel since the lanes of the wave last met. The n-th of each lane are
/// one instruction of the wave.
struct PlaceAccesses {
  LdsUse use = LdsUse::read;
  unsigned bytes = 0;
  std::array<std::uint32_t, 64> count{};  ///< by lane
  std::vector<std::vector<LaneAddress>> instructions;

  void add(unsigned lane, std::uint32_t address) {
    const std::uint32_t number = count[lane]++;
    if (instructions.size() <= number) instructions.resize(number + 1);
    instructions[number].push_back({lane, address});
  }
};

struct WaveState {
  std::array<LaneState, 64> lanes;
  std::map<const void*, PlaceAccesses> accesses;  ///< by place in the code
};

/// The LDS instructions of one place of the kernel, of all waves.
struct LdsCount {
  LdsUse use = LdsUse::read;
  unsigned bytes = 0;  ///< of a lane
  std::uint64_t instructions = 0, clocks = 0, least = 0;
  unsigned worst = 0;  ///< clocks of one phase: 1 is no conflict
};

}  // namespace emulator::hip
