// The generic kernels: one stage, no workspace but the threads' scratch, whatever the problem.
#include <utility>

#include "kernels/cpu/generic_layout.h"
#include "plan/cpu_plans.h"
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

}  // namespace

Result<Plan> cpu_generic_forward(const Problem& problem, const Target& target, const Target::Tile& tile,
                                 const PlanOptions& options) {
  const std::int64_t grid =
      product({problem.b, problem.hq, ceil_divide(problem.sq, GenericLayout::tile_rows)});
  return one_stage(problem, target, options,
                   stage_of(problem, target, "generic_forward", &tile, grid,
                            GenericLayout(problem.d, problem.dv).forward_bytes()));
}

Result<Plan> cpu_generic_backward(const Problem& problem, const Target& target, const Target::Tile& tile,
                                  const PlanOptions& options) {
  const auto grid = GenericLayout::backward_grid(problem.b, problem.hq, problem.hk, problem.sq, problem.sk,
                                                 bias_matrices(problem), problem.sink);
  return one_stage(problem, target, options,
                   stage_of(problem, target, "generic_backward", &tile, grid.total(),
                            GenericLayout(problem.d, problem.dv).backward_bytes()));
}

}  // namespace regard
