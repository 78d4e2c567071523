// What the machine code of an AMD kernel consists of, as far as it decides speed: read from its bytes, so
// that no disassembler is needed and any compiler's code object can be judged.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/result.h"

namespace regard {

struct AmdInstructions {
  std::int64_t all = 0;
  std::int64_t matrix = 0;  ///< MFMA, WMMA
  /// Accesses by addresses that could be of memory, LDS or scratch, so that they wait for two of these.
  std::int64_t flat = 0;
  std::int64_t accumulator_moves = 0;  ///< between VGPRs and AGPRs, in loops
  std::int64_t scalar_moves = 0;       ///< between SGPRs and single lanes of VGPRs, in loops
};

/// `code` is that of a kernel, all of it; `chip` is "gfx942", "gfx11-generic". An error for chips other than
/// CDNA2 to 4, RDNA3 and RDNA4, and where the code does not end with the end of an instruction.
Result<AmdInstructions> count_amd_instructions(std::span<const std::byte> code, std::string_view chip);

}  // namespace regard
