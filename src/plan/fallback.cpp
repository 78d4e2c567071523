#include "plan/fallback.h"

#include "plan/function_words.h"
#include "plan/kernel.h"

namespace regard {

std::optional<Plan> fallback_of(const Plan& best, PlanOptions options) {
  const bool reads_as_word = best.words != nullptr && best.words->tensor;
  if (reads_as_word && best.target->on_cpu() && options.functions == FunctionsBy::any) {
    options.functions = FunctionsBy::interpreted;
    if (options.family.empty() && options.strict) return {};
  } else if (!options.family.empty() || options.strict) {
    return {};
  } else if (best.target->on_cpu()) {
    if (best.generic) return {};
    options.family = "generic";
  } else {
    const std::size_t before = options.disabled.size();
    for (const Stage& stage : best.stages)
      if (stage.kernel->boxes != nullptr) options.disabled.emplace_back(stage.kernel->name);
    if (options.disabled.size() == before) return {};
  }
  options.recorded.clear();
  options.choose = nullptr;
  Result<Plan> other = plan(given_problem(best), *best.target, options);
  return other ? std::optional(std::move(*other)) : std::nullopt;
}

}  // namespace regard
