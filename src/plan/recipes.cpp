#include <fmt/format.h>

#include "plan/cpu_plans.h"
#include "plan/recipe.h"

namespace regard {

std::span<const Recipe> recipes() {
  static constexpr Recipe list[] = {
      {"decode", "decode", Family::split_kv, Pass::fwd, "decode + combine", nullptr},
      {"forward", "forward", Family::forward, Pass::fwd, "forward", cpu_forward},
      {"forward_split", "forward", Family::split_kv, Pass::fwd, "forward + combine", nullptr},
      {"generic", "generic_forward", Family::forward, Pass::fwd, "generic_forward", cpu_generic_forward},
      {"backward", "backward", Family::backward, Pass::bwd, "backward_delta + backward + backward_convert",
       cpu_backward},
      {"generic", "generic_backward", Family::backward, Pass::bwd, "generic_backward", cpu_generic_backward},
      {"paged", "paged_forward", Family::paged, Pass::fwd, "paged_forward + combine", nullptr},
      {"batch_prefill", "batch_prefill", Family::batch_prefill, Pass::fwd, "batch_prefill", nullptr},
      {"append_kv", "append_kv", Family::append_kv, Pass::append, "append_kv", nullptr},
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

std::string name_of(const Candidate& candidate) {
  std::string name(candidate.recipe->stages);
  if (candidate.tile == nullptr) return name;
  for (const auto& [field, value] : candidate.tile->values) name += fmt::format(" {}={}", field, value);
  return name;
}

}  // namespace regard
