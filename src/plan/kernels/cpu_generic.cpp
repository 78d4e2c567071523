// The generic kernels: one stage and no workspace except the threads' scratch, for any problem.
#include <algorithm>

#include "kernels/cpu/generic_layout.h"
#include "plan/cost.h"
#include "plan/kernels/kernels.h"
#include "plan/plan_parts.h"
#include "plan/stage.h"

namespace regard {
namespace {

Result<Plan> one_stage(const Problem& problem, const Target& target, const PlanOptions& options,
                       const Stage& stage) {
  Plan plan = start(problem, target, options);
  plan.stages = {stage};
  return finish(std::move(plan));
}

std::int64_t bias_matrices(const Problem& p) {
  if (!p.dbias) return 0;
  return product({has_batches(p.bias) ? p.b : 1, has_heads(p.bias) ? p.hq : 1});
}

/// The kernels perform about one multiply-add at a time.
Seconds seconds(const Plan& plan, const Stage& stage) {
  constexpr double flops_per_second = 1.5e9;
  return std::max(flops(plan.problem) / flops_per_second, seconds_to_read(plan, false)) /
         busy_workers(plan, stage, 1);
}

}  // namespace

Result<Plan> plan_cpu_generic_forward(const Problem& problem, const Target& target, const Target::Tile& tile,
                                      const PlanOptions& options) {
  const std::int64_t grid =
      product({problem.b, problem.hq, ceil_divide(problem.sq, GenericLayout::tile_rows)});
  return one_stage(problem, target, options,
                   stage_of(problem, target, cpu_generic_forward, &tile, grid,
                            GenericLayout(problem.d, problem.dv).forward_bytes()));
}

Result<Plan> plan_cpu_generic_backward(const Problem& problem, const Target& target, const Target::Tile& tile,
                                       const PlanOptions& options) {
  const auto grid = GenericLayout::backward_grid(problem.b, problem.hq, problem.hk, problem.sq, problem.sk,
                                                 bias_matrices(problem), problem.sink);
  return one_stage(problem, target, options,
                   stage_of(problem, target, cpu_generic_backward, &tile, grid.total(),
                            GenericLayout(problem.d, problem.dv).backward_bytes()));
}

const Kernel cpu_generic_forward{.name = "cpu_generic_forward", .depends_on = pass_only, .seconds = seconds};
const Kernel cpu_generic_backward{
    .name = "cpu_generic_backward", .depends_on = pass_only, .seconds = seconds};

}  // namespace regard
