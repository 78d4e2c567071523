#include "plan/refusal.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <vector>

namespace regard {
namespace {

/// Reasons that only say "not this candidate", as opposed to "not this problem".
bool is_about_the_choice(const Reason& reason) {
  return reason.verdict->rule == "family_matches" || reason.verdict->rule == "asked_for";
}

/// Of the reasons by this rule the one of the plan with the fewest stages: the plainest way to solve it.
const Verdict* plainest_with_rule(std::span<const Reason> reasons, std::string_view rule) {
  const auto stages = [](const Reason& reason) {
    return std::count(reason.stages.begin(), reason.stages.end(), '+');
  };
  const Reason* best = nullptr;
  for (const Reason& reason : reasons) {
    if (reason.verdict->rule == rule && (best == nullptr || stages(reason) < stages(*best))) best = &reason;
  }
  return best == nullptr ? nullptr : best->verdict;
}

}  // namespace

std::string told(std::span<const Reason> reasons) {
  const bool only_choice = std::all_of(reasons.begin(), reasons.end(), is_about_the_choice);
  std::string text;
  std::set<std::string_view> said;
  for (std::size_t i = 0; i < reasons.size(); ++i) {
    const bool more_tiles = i + 1 < reasons.size() && reasons[i + 1].stages == reasons[i].stages;
    if (more_tiles || (is_about_the_choice(reasons[i]) && !only_choice)) continue;
    if (!said.insert(reasons[i].verdict->reason).second) continue;
    text += fmt::format("{}{}: {}", text.empty() ? "" : "; ", reasons[i].stages, reasons[i].verdict->reason);
  }
  return text;
}

std::string refusal_of(const Problem& problem, const Target& target, std::span<const Reason> reasons) {
  const std::string start = fmt::format("no plan for '{}'", print(problem));
  if (const Verdict* strict = plainest_with_rule(reasons, "strict_allows")) {
    return fmt::format("{} on {}: {}", start, target.name, strict->reason);
  }
  // A candidate that got as far as the last rule says best what is missing; it names the target itself.
  if (const Verdict* missing = plainest_with_rule(reasons, "kernel_exists")) {
    return fmt::format("no kernels for '{}': {}", print(problem), missing->reason);
  }
  return fmt::format("{} on {}: {}", start, target.name, told(reasons));
}

}  // namespace regard
