// The last rule: everything fits; is there a kernel?
#include <fmt/format.h>

#include <algorithm>

#include "base/forever.h"
#include "plan/rules.h"
#include "plan/sources.h"

namespace regard {
namespace {

/// The stem that is missing on a target; empty when the recipe can be cooked there.
std::string_view missing_kernel(const Recipe& recipe, const Target& target) {
  const bool in_table = std::any_of(target.tiles.begin(), target.tiles.end(),
                                    [&](const Target::Tile& tile) { return tile.kernel == recipe.kernel; });
  if (recipe.appends && !has_source(target, "append_kv")) return "append_kv";
  if (target.kind != TargetKind::cpu || !in_table) return recipe.kernel;
  for (std::string_view stem : stage_kernels(recipe)) {
    if (!has_source(target, stem)) return stem;
  }
  return {};
}

/// "; cpu-amx has one": the first target that can.
std::string who_can(const Recipe& recipe) {
  const Result<std::vector<Target>>& all = targets();
  if (all) {
    for (const Target& target : *all) {
      if (missing_kernel(recipe, target).empty()) return fmt::format("; {} has one", target.name);
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
  return std::any_of(all.begin(), all.end(),
                     [&](const Recipe& recipe) { return missing_kernel(recipe, target).empty(); });
}

Refusal kernel_exists(const Question& q) {
  const Recipe& recipe = *q.candidate.recipe;
  const std::string_view missing = missing_kernel(recipe, q.target);
  if (missing.empty()) return {};
  return fmt::format("{} target {}: no {} kernel yet{}", word(q.target.kind), q.target.name, missing,
                     who_can_once(recipe));
}

}  // namespace regard
