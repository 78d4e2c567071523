#include "plan/refusal.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <vector>

#include "plan/rules.h"

namespace regard {
namespace {

/// Reasons that only say "not this candidate", as opposed to "not this problem".
bool is_about_the_choice(const Reason& reason) {
  return reason.verdict->rule == "asked_for";
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

/// How far it got: the number of rules before the one that refused it.
std::ptrdiff_t rules_passed(const Reason& reason) {
  const auto list = rules();
  return std::find_if(list.begin(), list.end(),
                      [&](const Rule& rule) { return rule.name == reason.verdict->rule; }) -
         list.begin();
}

/// Of two tiles of a recipe: the one that got farther, else the first; but where head dims do not fit the
/// last, which is the widest.
bool is_better(const Reason& reason, const Reason& best) {
  const std::ptrdiff_t farther = rules_passed(reason) - rules_passed(best);
  return farther > 0 || (farther == 0 && reason.verdict->rule == "head_dims_fit");
}

}  // namespace

std::string_view unwritten(const Problem& p) {
  if (p.pass == Pass::append || writes_cache(p))
    return "no kernel writes new tokens into a KV cache yet; write them into K and V before the call, and leave "
           "snew away";
  if (p.paged > 0)
    return "no kernel reads a paged KV cache yet; gather its pages into K and V without pages";
  return {};
}

std::string told(std::span<const Reason> reasons) {
  const bool only_choice = std::all_of(reasons.begin(), reasons.end(), is_about_the_choice);
  std::vector<Reason> best;  // of each recipe
  for (const Reason& reason : reasons) {
    if (is_about_the_choice(reason) && !only_choice) continue;
    if (best.empty() || best.back().stages != reason.stages)
      best.push_back(reason);
    else if (is_better(reason, best.back()))
      best.back() = reason;
  }
  std::copy_if(reasons.begin(), reasons.end(), std::back_inserter(best),
               [](const Reason& reason) { return reason.verdict->rule == "not_disabled"; });
  std::string text;
  std::set<std::string_view> said;
  for (const Reason& reason : best) {
    if (!said.insert(reason.verdict->reason).second) continue;
    text += fmt::format("{}{}: {}", text.empty() ? "" : "; ", reason.stages, reason.verdict->reason);
  }
  return text;
}

std::string refusal_of(const Problem& problem, const Target& target, std::span<const Reason> reasons) {
  const std::string start = fmt::format("no plan for '{}'", print(problem));
  if (std::all_of(reasons.begin(), reasons.end(), is_about_the_choice)) {
    if (const Verdict* asked = plainest_with_rule(reasons, "asked_for"))
      return fmt::format("{} on {}: {}; `regard explain` lists the kernels for it", start, target.name,
                         asked->reason);
  }
  if (const Verdict* strict = plainest_with_rule(reasons, "strict_allows")) {
    return fmt::format("{} on {}: {}", start, target.name, strict->reason);
  }
  // Where there are kernels at all, what they do not take says best what is missing; else a candidate that
  // got as far as the last rule, which names the target itself.
  std::vector<Reason> of_kernels;
  std::copy_if(reasons.begin(), reasons.end(), std::back_inserter(of_kernels),
               [](const Reason& reason) { return reason.has_kernel && !is_about_the_choice(reason); });
  if (!of_kernels.empty()) return fmt::format("{} on {}: {}", start, target.name, told(of_kernels));
  if (const Verdict* missing = plainest_with_rule(reasons, "kernel_exists")) {
    return fmt::format("no kernels for '{}': {}", print(problem), missing->reason);
  }
  return fmt::format("{} on {}: {}", start, target.name, told(reasons));
}

}  // namespace regard
