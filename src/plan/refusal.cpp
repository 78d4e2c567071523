#include "plan/refusal.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace regard {
namespace {

/// Reasons that only say "not this candidate", as opposed to "not this problem".
bool is_about_the_choice(const Reason& reason) {
  return reason.verdict->rule == "family_matches" || reason.verdict->rule == "asked_for";
}

const Verdict* first_with_rule(std::span<const Reason> reasons, std::string_view rule) {
  for (const Reason& reason : reasons) {
    if (reason.verdict->rule == rule) return reason.verdict;
  }
  return nullptr;
}

}  // namespace

std::string told(std::span<const Reason> reasons) {
  const bool only_choice = std::all_of(reasons.begin(), reasons.end(), is_about_the_choice);
  std::string text;
  for (std::size_t i = 0; i < reasons.size(); ++i) {
    const bool more_tiles = i + 1 < reasons.size() && reasons[i + 1].stages == reasons[i].stages;
    if (more_tiles || (is_about_the_choice(reasons[i]) && !only_choice)) continue;
    text += fmt::format("{}{}: {}", text.empty() ? "" : "; ", reasons[i].stages, reasons[i].verdict->reason);
  }
  return text;
}

std::string refusal_of(const Problem& problem, const Target& target, std::span<const Reason> reasons) {
  const std::string start = fmt::format("no plan for '{}' on {}: ", print(problem), target.name);
  if (const Verdict* strict = first_with_rule(reasons, "strict_allows")) return start + strict->reason;
  // A candidate that got as far as the last rule says best what is missing.
  if (const Verdict* missing = first_with_rule(reasons, "kernel_exists")) return start + missing->reason;
  return start + told(reasons);
}

}  // namespace regard
