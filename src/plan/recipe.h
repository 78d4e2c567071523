// A recipe makes one kind of plan from a tile of the target's table. The list in recipes.cpp is what Regard
// can do.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "plan/plan.h"

namespace regard {

struct Recipe {
  std::string_view name;    ///< "decode": also what REGARD_DISABLE and the option `family` name
  std::string_view kernel;  ///< stem of the main stage; one candidate per tile of this kernel
  Family family;
  Pass pass;
  std::string_view stages;  ///< for explain: "decode + combine"
  /// Grid, scratch and workspace, for a problem that the rules let through.
  Result<Plan> (*make)(const Problem&, const Target&, const Target::Tile&, const PlanOptions&);
};

/// From top to bottom: where tuning and cost do not decide, the first one wins.
std::span<const Recipe> recipes();

/// Whether anything can be run on the target, or only planned and explained.
bool has_kernels(const Target&);
bool has_generic_kernel(Pass, const Target&);

/// The stems in `stages`: "decode + combine" -> decode, combine.
std::vector<std::string_view> stage_kernels(const Recipe&);

/// What the option `family` and REGARD_DISABLE may name: recipes, families, kernels and pipelines.
std::span<const std::string_view> recipe_words();
bool goes_by(const Recipe&, std::string_view word);

/// The slower recipe that takes everything.
inline bool is_generic(const Recipe& recipe) {
  return recipe.name == "generic";
}

/// Whether the last stage merges parts of the keys.
inline bool splits_keys(const Recipe& recipe) {
  return recipe.stages.ends_with("combine");
}

struct Candidate {
  const Recipe* recipe;
  const Target::Tile* tile;  ///< null where the target has none

  std::string_view pipeline() const { return tile == nullptr ? std::string_view() : tile->pipeline; }
};

bool has_kernel(const Candidate&, const Target&);

/// Whether all words, separated by spaces, are true of it: names of its recipe, its pipeline, or numbers of
/// its tile, 0 where it has none ("wgmma_tma cluster=2").
bool goes_by(const Candidate&, std::string_view words);

/// In table order: recipe by recipe, tile by tile.
std::vector<Candidate> candidates(const Problem&, const Target&);

/// "decode + combine, block_k=64".
std::string name_of(const Candidate&);

}  // namespace regard
