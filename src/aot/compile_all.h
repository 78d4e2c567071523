// Compiles the kernels of a selection, several at a time, into a folder from which an interrupted build goes
// on.
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

/// What became of a kernel.
struct Built {
  const Selection::Kernel* kernel = nullptr;
  Digest source, identity;             ///< as of BundleKernel
  CacheEntry entry;                    ///< with a manifest that is the same whenever it is built
  std::uint64_t bytes = 0;             ///< of its binary
  std::optional<Resources> resources;  ///< of a GPU's kernel
  double seconds = 0;                  ///< that its compile took, in an earlier build where it is kept
  bool kept = false;                   ///< from an earlier build
  std::string failure;                 ///< what its compiler said; empty: it is built
};

/// Told of each as it is done. Never from two threads at once.
using OnBuilt = std::function<void(const Built&, std::size_t done)>;

/// In the order of the selection. A kernel that fails leaves the others to be built; an error is of all of
/// them, as where a target's compiler is missing, or memory, files or disk ran out. `jobs`: compiles at a
/// time; 0: as many as there are cores, of which as many run as memory allows.
Result<std::vector<Built>> compile_all(const Selection&, Cache& store, int jobs, const OnBuilt&);

}  // namespace regard::aot
