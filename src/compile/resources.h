// The hardware resources that a compiled GPU kernel takes, as its compiler reports them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "plan/kernel_key.h"
#include "plan/target.h"

namespace regard {

struct Resources {
  std::int64_t registers = 0;          ///< 32-bit registers per thread; AMD: VGPRs and AGPRs together
  std::int64_t stack_bytes = 0;        ///< local memory of a thread's stack frame; AMD: scratch
  std::int64_t spill_store_bytes = 0;  ///< registers written to local memory
  std::int64_t spill_load_bytes = 0;   ///< and read back from there
  std::int64_t shared_bytes = 0;       ///< static shared memory per block
  std::int64_t barriers = 0;           ///< named barriers per block
  std::int64_t matrix = 0;             ///< matrix instructions in its text
  std::int64_t waves = 0;              ///< waves_per_simd()

  // AMD's; 0 for others.
  std::int64_t accumulators = 0;       ///< of the registers, AGPRs
  std::int64_t accumulator_moves = 0;  ///< instructions in loops that move them
  std::int64_t scalar_registers = 0;   ///< SGPRs per wave
  std::int64_t scalar_spills = 0;      ///< SGPRs that are kept in lanes of other registers
  std::int64_t scalar_moves = 0;       ///< instructions in loops that store or load these

  /// What costs speed: wgmma instructions that ptxas serializes (C7510 to C7519), flat accesses of AMD's; and
  /// what the kernel was written for but does not use.
  std::vector<std::string> performance_warnings;

  bool spills() const { return spill_store_bytes > 0 || spill_load_bytes > 0; }
};

/// Parses the log of `ptxas --verbose`; `ptx` is its input. An error when the log reports on no kernel, or on
/// more than one.
Result<Resources> parse_ptxas_log(std::string_view log, std::string_view ptx = {});

/// Waves (warps) of such a kernel that a SIMD, a quarter of a multiprocessor, has registers for.
std::int64_t waves_per_simd(std::int64_t registers, const Target&);

/// Adds a warning where the machine code lacks instructions that the kernel is built on.
void warn_of_missing_instructions(Resources&, const KernelKey&);

/// An error when a block of the kernel needs more registers or shared memory than the target has, so that it
/// could never be launched.
Status fits(const Resources&, const KernelKey&, const Target&);

}  // namespace regard
