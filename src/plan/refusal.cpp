#include "plan/refusal.h"

#include <fmt/format.h>

#include <algorithm>

namespace regard {
namespace {

/// Reasons that only say "not this candidate", as opposed to "not this problem".
bool is_about_the_choice(const Verdict& verdict) {
  return verdict.rule == "family_matches" || verdict.rule == "asked_for";
}

}  // namespace

std::string refusal_of(const Problem& problem, const Target& target, const std::vector<Verdict>& verdicts) {
  const auto start = fmt::format("no plan for '{}' on {}: ", print(problem), target.name);
  // A candidate that got as far as the last rule says best what is missing.
  const auto missing = std::find_if(verdicts.begin(), verdicts.end(),
                                    [](const Verdict& verdict) { return verdict.rule == "kernel_exists"; });
  const bool all_choice = std::all_of(verdicts.begin(), verdicts.end(), is_about_the_choice);
  std::vector<std::string> reasons;
  for (const Verdict& verdict : verdicts) {
    if (verdict.rule == "kernel_exists" && &verdict != &*missing) continue;
    if (is_about_the_choice(verdict) && !all_choice) continue;
    if (target.kind != TargetKind::cpu && missing != verdicts.end() && &verdict != &*missing) continue;
    const std::string reason = fmt::format("{}: {}", verdict.candidate, verdict.reason);
    if (std::find(reasons.begin(), reasons.end(), reason) == reasons.end()) reasons.push_back(reason);
  }
  if (missing != verdicts.end() && (target.kind != TargetKind::cpu || reasons.size() == 1)) {
    return start + missing->reason;
  }
  constexpr std::size_t most = 4;
  const std::size_t more = reasons.size() > most ? reasons.size() - most : 0;
  reasons.resize(reasons.size() - more);
  std::string text = fmt::format("{}{}", start, fmt::join(reasons, "; "));
  if (more > 0) text += fmt::format("; {} more reasons are in explain", more);
  return text;
}

}  // namespace regard
