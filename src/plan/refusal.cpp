#include "plan/refusal.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <vector>

#include "plan/recipe.h"

namespace regard {
namespace {

using Verdicts = std::span<const Verdict* const>;

/// Verdicts that say only "not this candidate", as opposed to "not this problem".
bool is_about_the_choice(const Verdict* verdict) {
  return verdict->rule == "asked_for";
}

const Verdict* first_with_rule(Verdicts verdicts, std::string_view rule) {
  const auto found =
      std::ranges::find_if(verdicts, [&](const Verdict* verdict) { return verdict->rule == rule; });
  return found == verdicts.end() ? nullptr : *found;
}

/// Of two tiles of a recipe: the one that got further, else the first; but where head dimensions do not fit,
/// the last, which is the widest.
bool is_better(const Verdict& verdict, const Verdict& best) {
  if (verdict.rules_passed != best.rules_passed) return verdict.rules_passed > best.rules_passed;
  return verdict.rule == "head_dims_fit";
}

}  // namespace

std::string summarize(Verdicts verdicts) {
  const bool only_choice = std::ranges::all_of(verdicts, is_about_the_choice);
  std::vector<const Verdict*> best;  // of each recipe
  for (const Verdict* verdict : verdicts) {
    if (is_about_the_choice(verdict) && !only_choice) continue;
    if (best.empty() || best.back()->stages != verdict->stages)
      best.push_back(verdict);
    else if (is_better(*verdict, *best.back()))
      best.back() = verdict;
  }
  std::ranges::copy_if(verdicts, std::back_inserter(best),
                       [](const Verdict* verdict) { return verdict->rule == "not_disabled"; });
  std::string text;
  std::set<std::string_view> said;
  for (const Verdict* verdict : best) {
    if (!said.insert(verdict->reason).second) continue;
    text += fmt::format("{}{}: {}", text.empty() ? "" : "; ", verdict->stages, verdict->reason);
  }
  return text;
}

std::string refusal_of(const Problem& problem, const Target& target, Verdicts verdicts) {
  if (verdicts.empty()) {
    const std::string_view who = first_target_for(problem.pass);
    return fmt::format("no kernels for '{}': {} target {} has no kernel for {} yet{}", print(problem),
                       word(target.kind), target.name, word(problem.pass),
                       who.empty() ? "" : fmt::format("; {} has one", who));
  }
  const std::string start = fmt::format("no plan for '{}'", print(problem));
  if (std::ranges::all_of(verdicts, is_about_the_choice)) {
    return fmt::format("{} on {}: {}; `regard explain` lists the kernels for it", start, target.name,
                       verdicts.front()->reason);
  }
  if (const Verdict* strict = first_with_rule(verdicts, "strict_allows"))
    return fmt::format("{} on {}: {}", start, target.name, strict->reason);
  return fmt::format("{} on {}: {}", start, target.name, summarize(verdicts));
}

}  // namespace regard
