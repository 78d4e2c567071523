// Whether a GPU's matrix instructions, and the transposed read of gfx950, are as the emulator's tables say.
// The emulated kernels are right on a chip only as far as these are.
#pragma once

#include <string>

#include "base/result.h"
#include "device/gpu.h"
#include "emulator/hip/chips.h"
#include "emulator/hip/layouts.h"

namespace regard::probe {

inline constexpr const char* symbol = "probe";

/// The kernel with all of the chip's instructions; its argument says which of them it performs.
std::string source_for(const emulator::hip::Chip&);

/// What source_for was compiled to, on a device of that chip. Functions return an empty string, or how the
/// instruction differs from the table.
class Probe {
 public:
  static Result<Probe> load(const gpu::Device&, const emulator::hip::Chip&, std::vector<std::byte> code);

  /// Places operands as the table says, and expects the sums where it says. Of the order along the depth only
  /// that it is the same for both operands can be checked: no sum depends on more.
  Result<std::string> difference(const emulator::hip::Matrix&) const;
  Result<std::string> difference(const emulator::hip::TransposedTable&) const;

 private:
  struct Launch;
  Result<std::string> run(const Launch&) const;

  const gpu::Device* device_ = nullptr;
  const emulator::hip::Chip* chip_ = nullptr;
  gpu::Function function_ = nullptr;
};

/// Whether the chip has the instruction.
bool has(const emulator::hip::Chip&, const emulator::hip::Matrix&);
bool has_transposed_read(const emulator::hip::Chip&);

}  // namespace regard::probe
