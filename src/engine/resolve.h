// KernelKey -> code that can be launched, through the tiers: built into the library, bundles, cache, remote
// store, compile.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cache/cache.h"
#include "compile/resources.h"
#include "device/cpu/cpu.h"
#include "device/gpu.h"
#include "plan/plan.h"

namespace regard {

enum class Tier : std::uint8_t { built_in, bundle, cache, remote, compile };
std::string_view word(Tier);

inline constexpr const char* cache_is_off =
    "REGARD_CACHE=off: compiled kernels are neither looked up here nor kept";

/// What a device runs: one of the two.
struct Code {
  cpu::KernelFunction function = nullptr;
  std::shared_ptr<cpu::Module> module;  ///< null for built-in kernels
  std::shared_ptr<const gpu::Kernel> gpu;
};

struct LoadedKernel {
  std::string key;
  Code code;
  Tier tier = Tier::built_in;
  double seconds = 0;                  ///< time to find, load or compile it
  std::optional<Resources> resources;  ///< of a GPU kernel
  std::string not_kept;                ///< why a compiled kernel is not in the cache; empty when it is
  std::vector<std::string> missed;     ///< the reasons of earlier tiers: what follows "it is"
};

/// Single flight per key; the result, even a failure, is kept for the life of the process, unless memory,
/// files or disk were scarce. The error names every place searched and what would make the kernel available.
/// `declarable`: set where it failed and an ahead-of-time build would help.
Result<std::shared_ptr<const LoadedKernel>> resolve(const KernelKey&, bool* declarable = nullptr);

/// Where it would come from, without code: nothing is loaded or compiled, and nothing is remembered.
Result<std::shared_ptr<const LoadedKernel>> look_up(const KernelKey&, bool* declarable = nullptr);

/// What follows the error of such a kernel: the manifest table for the problem whose plan needs it.
std::string how_to_declare(const Plan&);

/// The process's cache, by the settings; an error only when the settings are invalid.
Result<Cache*> process_cache();

}  // namespace regard
