#include "emulator/hip/banks.h"

#include <algorithm>
#include <array>
#include <set>

namespace emulator::hip {
namespace {

struct Phases {
  unsigned banks;
  unsigned (*phase_of)(unsigned lane);
};

template <unsigned lanes>
unsigned neighbours(unsigned lane) {
  return lane / lanes;
}

/// By a number for each four lanes of 32; the other 32 lanes have phases of their own.
template <unsigned phases_of_32>
unsigned looked_up(const std::array<unsigned, 8>& of_four, unsigned lane) {
  return of_four[lane % 32 / 4] + lane / 32 * phases_of_32;
}
unsigned gfx950_read_16(unsigned lane) {  // 0-3, 12-15, 20-27; 4-11, 16-19, 28-31
  return looked_up<2>({0, 1, 1, 0, 1, 0, 0, 1}, lane);
}
unsigned gfx950_read_12(unsigned lane) {  // 0-3, 20-23; 4-7, 16-19; 8-11, 28-31; 12-15, 24-27
  return looked_up<4>({0, 1, 2, 3, 1, 0, 3, 2}, lane);
}

Phases phases_of(const Chip& chip, unsigned bytes, bool write) {
  if (chip.family == cdna4 && !write) {
    if (bytes > 12) return {64, gfx950_read_16};
    if (bytes > 8) return {32, gfx950_read_12};
    if (bytes > 4) return {64, neighbours<32>};
    return {64, neighbours<64>};
  }
  if (bytes > 8) return {32, neighbours<8>};
  if (bytes > 4) return {32, neighbours<16>};
  return {32, neighbours<32>};
}

}  // namespace

Clocks clocks_of(const Chip& chip, unsigned bytes, bool write, std::span<const LaneAddress> lanes) {
  const Phases phases = phases_of(chip, bytes, write);
  std::array<std::set<std::uint32_t>, 8> words;  // of LDS, by phase
  for (const LaneAddress& lane : lanes)
    for (std::uint32_t word = lane.address / 4; word <= (lane.address + bytes - 1) / 4; ++word)
      words[phases.phase_of(lane.lane)].insert(word);
  Clocks clocks;
  for (const std::set<std::uint32_t>& of_phase : words) {
    if (of_phase.empty()) continue;
    std::array<unsigned, 64> of_bank{};
    for (const std::uint32_t word : of_phase) ++of_bank[word % phases.banks];
    const unsigned taken = *std::ranges::max_element(of_bank);
    clocks.taken += taken;
    clocks.least += 1;
    clocks.worst = std::max(clocks.worst, taken);
  }
  return clocks;
}

}  // namespace emulator::hip
