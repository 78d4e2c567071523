#include <fmt/format.h>

#include <algorithm>

#include "base/forever.h"
#include "base/split.h"
#include "plan/cpu_plans.h"
#include "plan/gpu_plans.h"
#include "plan/pipelines.h"
#include "plan/recipe.h"
#include "plan/stage.h"

namespace regard {
namespace {

using Make = Result<Plan>(const Problem&, const Target&, const Target::Tile&, const PlanOptions&);

template <Make* on_cpu, Make* on_gpu>
Result<Plan> by_kind(const Problem& problem, const Target& target, const Target::Tile& tile,
                     const PlanOptions& options) {
  return (target.on_cpu() ? on_cpu : on_gpu)(problem, target, tile, options);
}

}  // namespace

std::span<const Recipe> recipes() {
  static constexpr Recipe list[] = {
      {"decode", "decode", Family::split_kv, Pass::fwd, "decode + combine", cpu_decode},
      {"forward", "forward", Family::forward, Pass::fwd, "forward", by_kind<cpu_forward, gpu_forward>},
      {"forward_split", "forward", Family::split_kv, Pass::fwd, "forward + combine",
       by_kind<cpu_forward_split, gpu_forward_split>},
      {"generic", "generic_forward", Family::forward, Pass::fwd, "generic_forward", cpu_generic_forward},
      {"paged", "paged_forward", Family::paged, Pass::fwd, "paged_forward + combine", cpu_forward_split},
      {"batch_prefill", "batch_prefill", Family::batch_prefill, Pass::fwd, "batch_prefill", cpu_forward},
      {"append_decode", "decode", Family::split_kv, Pass::fwd, "append_kv + decode + combine", cpu_decode,
       true},
      {"append_forward", "forward", Family::forward, Pass::fwd, "append_kv + forward", cpu_forward, true},
      {"append_paged", "paged_forward", Family::paged, Pass::fwd, "append_kv + paged_forward + combine",
       cpu_forward_split, true},
      {"backward", "backward", Family::backward, Pass::bwd, "backward_delta + backward + backward_convert",
       cpu_backward},
      {"generic", "generic_backward", Family::backward, Pass::bwd, "generic_backward", cpu_generic_backward},
      {"append_kv", "append_kv", Family::append_kv, Pass::append, "append_kv", append_alone},
  };
  return list;
}

std::vector<std::string_view> stage_kernels(const Recipe& recipe) {
  constexpr std::string_view plus = " + ";
  std::vector<std::string_view> stems;
  std::string_view rest = recipe.stages;
  for (std::size_t at; (at = rest.find(plus)) != std::string_view::npos;
       rest.remove_prefix(at + plus.size())) {
    stems.push_back(rest.substr(0, at));
  }
  stems.push_back(rest);
  return stems;
}

std::span<const std::string_view> recipe_words() {
  return forever<[] {
    std::vector<std::string_view> list;
    for (const Recipe& recipe : recipes()) {
      for (std::string_view name : {recipe.name, word(recipe.family), recipe.kernel}) {
        if (std::find(list.begin(), list.end(), name) == list.end()) list.push_back(name);
      }
    }
    for (const Pipeline& pipeline : pipelines()) {
      if (std::find(list.begin(), list.end(), pipeline.name) == list.end()) list.push_back(pipeline.name);
    }
    return list;
  }>();
}

bool goes_by(const Recipe& recipe, std::string_view name) {
  if (name == recipe.name || name == recipe.kernel) return true;
  if (recipe.appends && name == "append_kv") return true;
  // "forward" is a family too, and the generic kernel belongs to it: the narrower meaning wins.
  const auto list = recipes();
  const bool narrower = std::any_of(list.begin(), list.end(), [name](const Recipe& other) {
    return name == other.name || name == other.kernel;
  });
  return !narrower && name == word(recipe.family);
}

bool goes_by(const Candidate& candidate, std::string_view words) {
  const auto fits = [&](std::string_view name) {
    const std::size_t equals = name.find('=');
    if (equals == std::string_view::npos)
      return goes_by(*candidate.recipe, name) || (!name.empty() && candidate.pipeline() == name);
    const auto value = candidate.tile == nullptr ? 0 : value_of(*candidate.tile, name.substr(0, equals));
    return fmt::to_string(value) == name.substr(equals + 1);
  };
  const std::vector<std::string_view> list = split(words, " ");
  return std::all_of(list.begin(), list.end(), fits);
}

std::vector<Candidate> candidates(const Problem& problem, const Target& target) {
  std::vector<Candidate> list;
  for (const Recipe& recipe : recipes()) {
    if (recipe.pass != problem.pass) continue;
    const std::size_t before = list.size();
    for (const Target::Tile& tile : target.tiles) {
      if (tile.kernel == recipe.kernel) list.push_back({&recipe, &tile});
    }
    if (list.size() == before) list.push_back({&recipe, nullptr});
  }
  return list;
}

std::string name_of(const Candidate& candidate) {
  std::string name(candidate.recipe->stages);
  if (candidate.tile == nullptr) return name;
  if (!candidate.pipeline().empty()) {
    name +=
        fmt::format(" {} d={} dv={}", candidate.pipeline(), candidate.tile->max_d, candidate.tile->max_dv);
  }
  for (const auto& [field, value] : candidate.tile->values) name += fmt::format(" {}={}", field, value);
  return name;
}

Family family_of(const Problem& p) {
  if (p.pass == Pass::bwd) return Family::backward;
  if (p.pass == Pass::append) return Family::append_kv;
  if (p.paged > 0) return p.varlen ? Family::batch_prefill : Family::paged;
  return Family::forward;
}

}  // namespace regard
