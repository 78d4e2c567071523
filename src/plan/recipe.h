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
  /// Grid, scratch and workspace for a problem that the rules let through. Null: no kernel exists yet.
  Result<Plan> (*make)(const Problem&, const Target&, const Target::Tile&, const PlanOptions&);
};

std::span<const Recipe> recipes();

/// The stems in `stages`: "decode + combine" -> decode, combine.
std::vector<std::string_view> stage_kernels(const Recipe&);

struct Candidate {
  const Recipe* recipe;
  const Target::Tile* tile;  ///< null where the target has none
};

/// "decode + combine, block_k=64".
std::string name_of(const Candidate&);

}  // namespace regard
