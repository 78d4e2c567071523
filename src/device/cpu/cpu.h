// The CPU as a device: load a shared object from memory, run a grid of blocks over threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/machine.h"
#include "base/result.h"

namespace regard {
struct Arguments;
}

namespace regard::cpu {

using KernelFunction = void (*)(const Arguments*, long long block, void* scratch);

/// A loaded binary; unloaded with the last reference.
class Module {
 public:
  virtual ~Module() = default;
  virtual KernelFunction function() const = 0;
};

/// Loads exactly these bytes (through a memfd, so that nothing can change between check and load) and finds
/// `symbol`.
Result<std::shared_ptr<Module>> load(std::span<const std::byte> binary, const std::string& symbol);

/// Runs blocks [0, grid) on up to `threads` threads; thread t gets scratch + t * scratch_bytes. Blocks are
/// taken in order, so a block can wait for those of lower numbers. Nested calls, concurrent calls and forked
/// children work. Allocates nothing after the first call with a thread count (in a forked child it starts
/// threads for each call).
void run_grid(KernelFunction, const Arguments&, std::int64_t grid, int threads, void* scratch,
              std::int64_t scratch_bytes);

using regard::usable_cores;

/// The CPU features that targets ask for and that this machine's CPU has and its operating system enables, in
/// the words of /proc/cpuinfo: "avx2", "fma", "f16c", "avx512f", "avx512_bf16", ...; on AArch64 "asimd",
/// "bf16", ...
std::span<const std::string> cpu_flags();

/// Whether a CPU of this architecture can have the feature.
bool can_have_flag(std::string_view);

/// The vendor of this machine's CPU, in the same file's words: "AuthenticAMD", "GenuineIntel"; on AArch64 the
/// implementer, "0x41"; "" where it has none.
std::string_view cpu_vendor();

/// "AMD EPYC 9654 96-Core Processor", "Arm Neoverse V2"; "" where the CPU does not say.
std::string_view cpu_model();

/// Asks the operating system, once, to let all threads of this process use AMX tile registers.
Status allow_tiles();

}  // namespace regard::cpu
