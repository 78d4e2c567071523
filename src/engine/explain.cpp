#include "engine/explain.h"

#include <fmt/format.h>

#include "compile/manifest.h"
#include "engine/resolve.h"

namespace regard {
namespace {

std::string line_of(const Resources& used) {
  std::string text =
      fmt::format(", {} registers, {} bytes spilled, {} of stack, {} of static shared memory", used.registers,
                  used.spill_store_bytes + used.spill_load_bytes, used.stack_bytes, used.shared_bytes);
  if (used.waves > 0) text += fmt::format(", {} waves per SIMD", used.waves);
  if (used.accumulator_moves > 0)
    text += fmt::format(", {} moves of accumulators in loops", used.accumulator_moves);
  if (used.scalar_spills > 0)
    text += fmt::format(", {} scalar registers spilled, with {} moves in loops", used.scalar_spills,
                        used.scalar_moves);
  return text;
}

std::string line_of(const Stage& stage, const LoadedKernel& kernel) {
  std::string text = fmt::format("  {}: from {}", stage.key.algorithm.kernel, word(kernel.tier));
  if (!kernel.missed.empty()) text += fmt::format(" ({})", fmt::join(kernel.missed, ", "));
  if (kernel.resources) text += line_of(*kernel.resources);
  return text + "\n";
}

}  // namespace

std::string describe(const Explanation& explanation, std::string_view format) {
  const bool for_people = format != "json";
  std::string text = for_people ? to_text(explanation, format == "all") : "";
  PlanFacts facts;
  if (explanation.plan) {
    for (const Stage& stage : explanation.plan->stages) {
      PlanFacts::OfStage& of_stage = facts.stages.emplace_back();
      bool declarable = false;
      auto kernel = look_up(stage.key, &declarable);
      if (!kernel) {
        if (declarable) kernel.error().message += how_to_declare(*explanation.plan);
        of_stage.missed = {kernel.error().message};
        text += fmt::format("  {}\n", kernel.error().message);
        continue;
      }
      of_stage.tier = word((*kernel)->tier);
      of_stage.missed = (*kernel)->missed;
      if ((*kernel)->resources) of_stage.resources = resources_json(*(*kernel)->resources);
      if (for_people) text += line_of(stage, **kernel);
    }
  }
  return for_people ? text : to_json(explanation, facts);
}

}  // namespace regard
