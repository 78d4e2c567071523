// The effect of each builtin for which the lanes of a wave meet, by name, and which chips have it.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "emulator/hip/chips.h"
#include "emulator/hip/runtime.h"

namespace emulator::hip {

class HipLaunch;

/// What the lanes of a wave gave to a builtin, lane by lane.
struct Lanes {
  HipLaunch& launch;
  const Chip& chip;
  void* const* given;
  const void* place;  ///< of the builtin, in the code of the kernel

  template <class T>
  T& of(unsigned lane) const {
    return *static_cast<T*>(given[lane]);
  }
};

struct Named {
  std::string_view name;
  unsigned families;
  void (*perform)(const Named&, const Lanes&);  ///< nullptr: each lane does it by itself
  const void* table = nullptr;                  ///< of a matrix instruction
};

/// Throws std::runtime_error for a builtin that is unknown, or that the chip has not got.
const Named& find_builtin(std::string_view name, const Chip&);

// The tables that it searches.
std::span<const Named> matrix_builtins();
std::span<const Named> lane_builtins();

}  // namespace emulator::hip
