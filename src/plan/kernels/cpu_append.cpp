// kernels/cpu/append.cpp: each block writes one new token into the cache, or rotates one token's queries.
#include "kernels/cpu/append_layout.h"
#include "plan/cost.h"
#include "plan/kernels/kernels.h"
#include "plan/plan_parts.h"

namespace regard {
namespace {

/// Rows are converted one after the other.
Seconds seconds(const Plan& plan, const Stage& stage) {
  constexpr double of_rate = 0.25;
  return bytes_of_append(plan.problem) / (of_rate * bytes_per_second(plan) * busy_workers(plan, stage, 1));
}

std::span<const Rule> rules() {
  static constexpr Rule list[] = {{"cache_type_on_target", cache_type_on_target}};
  return list;
}

}  // namespace

Stage append_on_cpu(const Problem& p, const Target& target) {
  const std::int64_t grid = sum({new_tokens(p), rotates_queries(p) ? query_tokens(p) : 0});
  return stage_of(p, target, cpu_append, nullptr, grid, AppendLayout(p.d, p.dv, p.rotary).bytes());
}

Result<Plan> plan_cpu_append(const Problem& problem, const Target& target, const Target::Tile&,
                             const PlanOptions& options) {
  Plan plan = start(problem, target, options);
  plan.stages = {append_on_cpu(problem, target)};
  return finish(std::move(plan));
}

const Kernel cpu_append{.name = "cpu_append", .depends_on = append_alone, .rules = rules, .seconds = seconds};

}  // namespace regard
