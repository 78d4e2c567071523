// What the caller wants: the family of the problem, one asked for by name, ones switched off.
#include <fmt/format.h>

#include "base/printable.h"
#include "plan/rules.h"

namespace regard {

Refusal family_matches(const Question& q) {
  const Recipe& recipe = *q.candidate.recipe;
  const Family wanted = family_of(q.problem);
  if (recipe.pass == Pass::fwd && recipe.appends != writes_cache(q.problem)) {
    return std::string(recipe.appends
                           ? "it writes new tokens first and this problem has none; snew=N are some"
                           : "it writes no new tokens, and this problem has some");
  }
  if (recipe.pass == q.problem.pass && recipe.family == wanted) return {};
  if (wanted == Family::forward && recipe.family == Family::split_kv) return {};
  return fmt::format("it solves {} problems, this one is {}", word(recipe.family), word(wanted));
}

Refusal asked_for(const Question& q) {
  if (q.options.family.empty() || goes_by(q.candidate, q.options.family)) return {};
  return fmt::format("only {} was asked for, and it does not go by that", in_quotes(q.options.family));
}

Refusal not_disabled(const Question& q) {
  for (const std::string& name : q.options.disabled) {
    if (goes_by(q.candidate, name)) {
      return fmt::format("{} is switched off; take it out of REGARD_DISABLE", in_quotes(name));
    }
  }
  return {};
}

}  // namespace regard
