#include "plan/plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "plan/cost.h"
#include "plan/rules.h"

namespace regard {
namespace {

std::vector<Candidate> candidates(const Problem& problem, const Target& target) {
  std::vector<Candidate> list;
  for (const Recipe& recipe : recipes()) {
    if (recipe.pass != problem.pass) continue;
    bool any = false;
    for (const Target::Tile& tile : target.tiles) {
      if (tile.kernel != recipe.kernel) continue;
      list.push_back({&recipe, &tile});
      any = true;
    }
    if (!any) list.push_back({&recipe, nullptr});
  }
  return list;
}

/// The verdict of the first rule that refuses.
Verdict judge(const Question& question) {
  Verdict verdict;
  verdict.candidate = name_of(question.candidate);
  for (const Rule& rule : rules()) {
    if (Refusal refusal = rule.check(question)) {
      verdict.rule = rule.name;
      verdict.reason = std::move(*refusal);
      return verdict;
    }
  }
  verdict.accepted = true;
  return verdict;
}

std::string refusal_of(const Problem& problem, const Target& target, const std::vector<Verdict>& verdicts) {
  std::string reasons;
  for (const Verdict& verdict : verdicts) {
    reasons += fmt::format("{}{}: {}", reasons.empty() ? "" : "; ", verdict.candidate, verdict.reason);
  }
  return fmt::format("no plan for '{}' on {}: {}", print(problem), target.name, reasons);
}

}  // namespace

std::string_view word(Family family) {
  switch (family) {
    case Family::forward:
      return "forward";
    case Family::split_kv:
      return "split_kv";
    case Family::backward:
      return "backward";
    case Family::append_kv:
      return "append_kv";
    case Family::paged:
      return "paged";
    case Family::batch_prefill:
      return "batch_prefill";
  }
  return "?";
}

Result<Plan> plan(const Problem& problem, const Target& target, const PlanOptions& options,
                  Explanation* explanation) {
  if (Status status = validate(problem); !status) return tl::unexpected(status.error());
  std::vector<Verdict> verdicts;
  std::optional<Plan> best;
  std::size_t chosen = 0;
  for (const Candidate& candidate : candidates(problem, target)) {
    Verdict verdict = judge({problem, target, candidate, options});
    if (verdict.accepted) {
      Result<Plan> made = candidate.recipe->make(problem, target, *candidate.tile, options);
      if (!made) {
        verdict.accepted = false;
        verdict.rule = "sizes_fit";
        verdict.reason = made.error().message;
      } else {
        made->cost_seconds = cost_seconds(*made);
        verdict.reason = fmt::format("about {:.3g} ms", made->cost_seconds * 1e3);
        if (!best || made->cost_seconds < best->cost_seconds) {
          best = std::move(*made);
          chosen = verdicts.size();
        }
      }
    }
    verdicts.push_back(std::move(verdict));
  }
  if (best) verdicts[chosen].chosen = true;
  const std::string refusal = best ? std::string() : refusal_of(problem, target, verdicts);
  if (explanation != nullptr) *explanation = {print(problem), target.name, std::move(verdicts), refusal};
  if (!best) return refused(refusal);
  return std::move(*best);
}

}  // namespace regard
