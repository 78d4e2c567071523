// kernels/cpu/combine.cpp: each block merges the parts of some rows.
#include "kernels/cpu/combine_layout.h"

#include "plan/kernels/kernels.h"
#include "plan/plan_parts.h"

namespace regard {

namespace {

Stage combine_stage(const Plan& plan) {
  const Problem& p = plan.problem;
  const std::int64_t grid = product({p.b, p.hq, ceil_divide(p.sq, combine_rows)});
  Stage stage = stage_of(p, *plan.target, cpu_combine, nullptr, grid, 0);
  stage.schedule = Schedule(split_keys_of(plan));
  return stage;
}

}  // namespace

void merge_on_cpu(Plan& plan) {
  if (plan.splits > 1) merge_parts(plan, combine_stage(plan));
}

Result<Plan> plan_cpu_merge(const Problem& problem, const Target& target, const Target::Tile&,
                            const PlanOptions& options) {
  Plan plan = start(problem, target, options);
  plan.splits = problem.parts;
  plan.stages = {combine_stage(plan)};
  return finish(std::move(plan));
}

const Kernel cpu_combine{.name = "cpu_combine", .depends_on = output_type, .schedule = split_keys_schedule};

}  // namespace regard
