#include "emulator/hip/chips.h"

#include <fmt/format.h>

#include <stdexcept>

namespace emulator::hip {

const Chip& chip_named(std::string_view name) {
  static constexpr Chip chips[] = {
      {"gfx90a", cdna2, 64, 65536},        {"gfx942", cdna3, 64, 65536},
      {"gfx950", cdna4, 64, 163840},       {"gfx1100", rdna3, 32, 65536},
      {"gfx1201", rdna4, 32, 65536},       {"gfx9-4-generic", cdna3, 64, 65536},
      {"gfx11-generic", rdna3, 32, 65536}, {"gfx12-generic", rdna4, 32, 65536},
  };
  for (const Chip& chip : chips)
    if (chip.name == name) return chip;
  throw std::runtime_error(fmt::format("the emulator has no chip '{}'", name));
}

}  // namespace emulator::hip
