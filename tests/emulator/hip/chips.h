// AMD's chips, as far as their kernels can tell them apart.
#pragma once

#include <string_view>

namespace emulator::hip {

enum Family : unsigned { cdna2 = 1, cdna3 = 2, cdna4 = 4, rdna3 = 8, rdna4 = 16 };
constexpr unsigned cdna = cdna2 | cdna3 | cdna4, rdna = rdna3 | rdna4, every_chip = cdna | rdna;

struct Chip {
  std::string_view name;
  Family family;
  unsigned wave;       ///< lanes
  unsigned lds_bytes;  ///< the most of a block
  unsigned machine;    ///< its number in the header of a code object (EF_AMDGPU_MACH_…)
};

/// By its name as a compiler's target, such as "gfx942"; throws std::runtime_error for an unknown one.
const Chip& chip_named(std::string_view name);
/// By its number in the header of a code object.
const Chip& chip_numbered(unsigned machine);

}  // namespace emulator::hip
