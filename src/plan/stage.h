// A stage from its parts.
#pragma once

#include "plan/kernel.h"
#include "plan/plan.h"
#include "plan/sizes.h"

namespace regard {

/// The tile's, or that of a kernel without numbers.
inline Algorithm algorithm_of(const Kernel& kernel, const Target::Tile* tile) {
  if (tile != nullptr) return tile->algorithm;
  Algorithm algorithm;
  algorithm.kernel = kernel.name;
  return algorithm;
}

/// The signature that a problem's kernels are made for.
inline Signature needed_signature(const Problem& problem) {
  Signature needed = signature(problem);
  if (mask_hides_nothing(problem)) needed.mask = Mask::none;
  return needed;
}

/// `kernel` on `target` with the tile's numbers, its signature canonical.
inline KernelKey key_of(const Problem& problem, const Target& target, const Kernel& kernel,
                        const Target::Tile* tile) {
  return {kernel.depends_on(needed_signature(problem)), algorithm_of(kernel, tile), target.name};
}

inline Stage stage_of(const Kernel& kernel, KernelKey key, std::int64_t grid,
                      std::int64_t scratch_bytes = 0) {
  Stage stage;
  stage.kernel = &kernel;
  stage.key = std::move(key);
  stage.grid = grid;
  stage.scratch_bytes = round_up(scratch_bytes, 64);
  return stage;
}

inline Stage stage_of(const Problem& problem, const Target& target, const Kernel& kernel,
                      const Target::Tile* tile, std::int64_t grid, std::int64_t scratch_bytes = 0) {
  return stage_of(kernel, key_of(problem, target, kernel, tile), grid, scratch_bytes);
}

/// The first tile of a kernel in the target's table, or null.
inline const Target::Tile* first_tile(const Target& target, std::string_view kernel) {
  for (const Target::Tile& tile : target.tiles) {
    if (tile.algorithm.kernel == kernel) return &tile;
  }
  return nullptr;
}

/// Rows of the whole problem: tokens when packed.
inline std::int64_t query_tokens(const Problem& p) {
  return p.tq > 0 ? p.tq : product({p.b, p.sq});
}
inline std::int64_t key_tokens(const Problem& p) {
  return p.tk > 0 ? p.tk : product({p.b, p.sk});
}

}  // namespace regard
