// A stage from its parts.
#pragma once

#include "plan/kernel.h"
#include "plan/plan.h"
#include "plan/sizes.h"

namespace regard {

/// A kernel with the tile's numbers.
inline Algorithm algorithm_of(const Kernel& kernel, const Target::Tile* tile) {
  Algorithm algorithm;
  algorithm.kernel = kernel.name;
  if (tile != nullptr) {
#define REGARD_COPY(name, default_value, doc)                                   \
  if (const auto value = tile->values.find(#name); value != tile->values.end()) \
    algorithm.name = value->second;
    REGARD_ALGORITHM_FIELDS(REGARD_COPY)
#undef REGARD_COPY
  }
  return algorithm;
}

/// The signature that kernels for a problem are made of.
inline Signature needed_signature(const Problem& problem) {
  Signature needed = signature(problem);
  if (mask_hides_nothing(problem)) needed.mask = Mask::none;
  return needed;
}

/// The stage of `kernel` on `target` with the tile's numbers, its signature canonical.
inline Stage stage_of(const Problem& problem, const Target& target, const Kernel& kernel,
                      const Target::Tile* tile, std::int64_t grid, std::int64_t scratch_bytes) {
  Stage stage;
  stage.kernel = &kernel;
  stage.key = {kernel.depends_on(needed_signature(problem)), algorithm_of(kernel, tile), target.name};
  stage.grid = grid;
  stage.scratch_bytes = round_up(scratch_bytes, 64);
  return stage;
}

/// The first tile of a kernel in the target's table, or null.
inline const Target::Tile* first_tile(const Target& target, std::string_view kernel) {
  for (const Target::Tile& tile : target.tiles) {
    if (tile.kernel == kernel) return &tile;
  }
  return nullptr;
}

inline std::int64_t value_of(const Target::Tile& tile, std::string_view name) {
  const auto found = tile.values.find(std::string(name));
  return found == tile.values.end() ? 0 : found->second;
}

/// Rows of the whole problem: tokens when packed.
inline std::int64_t query_tokens(const Problem& p) {
  return p.tq > 0 ? p.tq : product({p.b, p.sq});
}
inline std::int64_t key_tokens(const Problem& p) {
  return p.tk > 0 ? p.tk : product({p.b, p.sk});
}

}  // namespace regard
