#include "emulator/hip/chips.h"

#include <fmt/format.h>

#include <stdexcept>

namespace emulator::hip {
namespace {

constexpr Chip chips[] = {
    {"gfx90a", cdna2, 64, 65536, 0x3f},        {"gfx942", cdna3, 64, 65536, 0x4c},
    {"gfx950", cdna4, 64, 163840, 0x4f},       {"gfx1100", rdna3, 32, 65536, 0x41},
    {"gfx1201", rdna4, 32, 65536, 0x4e},       {"gfx9-4-generic", cdna3, 64, 65536, 0x5f},
    {"gfx11-generic", rdna3, 32, 65536, 0x54}, {"gfx12-generic", rdna4, 32, 65536, 0x59},
};

}  // namespace

const Chip& chip_named(std::string_view name) {
  for (const Chip& chip : chips)
    if (chip.name == name) return chip;
  throw std::runtime_error(fmt::format("the emulator has no chip '{}'", name));
}

const Chip& chip_numbered(unsigned machine) {
  for (const Chip& chip : chips)
    if (chip.machine == machine) return chip;
  throw std::runtime_error(fmt::format("the emulator has no chip of number {:#x}", machine));
}

}  // namespace emulator::hip
