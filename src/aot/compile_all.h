// Compiles the kernels of a selection, several at a time, into a folder from which an interrupted build
// resumes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "aot/selection.h"
#include "cache/cache.h"
#include "compile/resources.h"

namespace regard::aot {

/// The outcome for one kernel.
struct Built {
  const Selection::Kernel* kernel = nullptr;
  Digest source, identity;             ///< as of BundleKernel
  CacheEntry entry;                    ///< its manifest is the same in every build
  std::uint64_t bytes = 0;             ///< of its binary
  std::optional<Resources> resources;  ///< of a GPU's kernel
  double seconds = 0;                  ///< of its compile, or of the earlier build's if it was kept
  bool kept = false;                   ///< from an earlier build
  std::string failure;                 ///< the compiler's output; empty: it is built
};

/// Called for each kernel when it is done. Never from two threads at once.
using OnBuilt = std::function<void(const Built&, std::size_t done)>;

/// In the order of the selection. A kernel that fails does not stop the others; an error concerns the whole
/// call, as where a target's compiler is missing, or memory, files or disk ran out. `jobs`: compiles at a
/// time; 0: as many as there are cores, of which as many run as memory allows.
Result<std::vector<Built>> compile_all(const Selection&, Cache& store, int jobs, const OnBuilt&);

}  // namespace regard::aot
