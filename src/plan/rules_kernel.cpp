// The last rule: everything fits; is there a kernel?
#include <fmt/format.h>

#include <algorithm>

#include "base/forever.h"
#include "plan/pipelines.h"
#include "plan/rules.h"
#include "plan/sources.h"
#include "plan/stage.h"

namespace regard {
namespace {

/// The stem that is missing on a target; empty when the candidate can be cooked there.
std::string_view missing_kernel(const Candidate& candidate, const Target& target) {
  const Recipe& recipe = *candidate.recipe;
  for (std::string_view stem : stage_kernels(recipe)) {
    const Target::Tile* tile = stem == recipe.kernel ? candidate.tile : first_tile(target, stem);
    if (tile == nullptr && (stem == recipe.kernel || target.on_gpu())) return stem;
    // The portable sources have instructions of NVIDIA alone yet (kernels/portable/cuda).
    if (target.kind == TargetKind::hip) return stem;
    if (!has_source(source_folder(tile == nullptr ? "" : tile->pipeline), stem)) return stem;
  }
  return {};
}

bool can_cook(const Recipe& recipe, const Target& target) {
  return std::ranges::any_of(target.tiles, [&](const Target::Tile& tile) {
    return tile.kernel == recipe.kernel && missing_kernel({&recipe, &tile}, target).empty();
  });
}

/// "; cpu-amx has one": the first target that can.
std::string who_can(const Recipe& recipe) {
  const Result<std::vector<Target>>& all = targets();
  if (all) {
    for (const Target& target : *all) {
      if (can_cook(recipe, target)) return fmt::format("; {} has one", target.name);
    }
  }
  return "; no target has one yet";
}

/// who_can for each recipe: the answer never changes, and looking for it takes a while.
const std::string& who_can_once(const Recipe& recipe) {
  const std::vector<std::string>& answers = forever<[] {
    std::vector<std::string> list;
    for (const Recipe& one : recipes()) list.push_back(who_can(one));
    return list;
  }>();
  return answers[static_cast<std::size_t>(&recipe - recipes().data())];
}

}  // namespace

bool has_kernels(const Target& target) {
  const auto all = recipes();
  return std::any_of(all.begin(), all.end(), [&](const Recipe& recipe) { return can_cook(recipe, target); });
}

bool has_kernel(const Candidate& candidate, const Target& target) {
  return missing_kernel(candidate, target).empty();
}

bool has_generic_kernel(Pass pass, const Target& target) {
  const auto all = recipes();
  return std::any_of(all.begin(), all.end(), [&](const Recipe& recipe) {
    return is_generic(recipe) && recipe.pass == pass && can_cook(recipe, target);
  });
}

Refusal kernel_exists(const Question& q) {
  const std::string_view missing = missing_kernel(q.candidate, q.target);
  if (missing.empty()) return {};
  return fmt::format("{} target {}: no {} kernel yet{}", word(q.target.kind), q.target.name, missing,
                     who_can_once(*q.candidate.recipe));
}

}  // namespace regard
