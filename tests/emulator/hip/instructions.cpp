#include "emulator/hip/instructions.h"

#include <fmt/format.h>

#include <stdexcept>

namespace emulator::hip {

const Named& find_builtin(std::string_view name, const Chip& chip) {
  for (const std::span<const Named> table : {matrix_builtins(), lane_builtins()}) {
    for (const Named& builtin : table) {
      if (builtin.name != name) continue;
      if ((builtin.families & chip.family) == 0)
        throw std::runtime_error(fmt::format("{} has no __builtin_amdgcn_{}", chip.name, name));
      return builtin;
    }
  }
  throw std::runtime_error(fmt::format("the emulator does not know __builtin_amdgcn_{}", name));
}

}  // namespace emulator::hip
