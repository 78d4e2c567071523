// The generic kernels: one stage, no workspace but the threads' scratch, whatever the problem.
#include "kernels/cpu/generic_layout.h"
#include "plan/cpu_plans.h"
#include "plan/stage.h"

namespace regard {
namespace {

Result<Plan> one_stage(const Problem& problem, const Target& target, Family family,
                       const PlanOptions& options, const Stage& stage) {
  Plan plan;
  plan.problem = problem;
  plan.target = &target;
  plan.family = family;
  plan.threads = options.threads;
  plan.split_keys = problem.sk;
  plan.stages = {stage};
  need(plan.workspace, Part::scratch, product({stage.scratch_bytes, options.threads}));
  if (Status status = lay_out(plan.workspace); !status) return tl::unexpected(status.error());
  return plan;
}

std::int64_t bias_matrices(const Problem& p) {
  if (!p.dbias) return 0;
  const bool batches = p.bias == Bias::batch_one || p.bias == Bias::batch_head;
  const bool heads = p.bias == Bias::one_head || p.bias == Bias::batch_head;
  return (batches ? p.b : 1) * (heads ? p.hq : 1);
}

}  // namespace

Result<Plan> cpu_generic_forward(const Problem& problem, const Target& target, const Target::Tile& tile,
                                 const PlanOptions& options) {
  const std::int64_t grid =
      product({problem.b, problem.hq, ceil_divide(problem.sq, GenericLayout::tile_rows)});
  return one_stage(problem, target, Family::forward, options,
                   stage_of(problem, target, "generic_forward", &tile, grid,
                            GenericLayout(problem.d, problem.dv).forward_bytes()));
}

Result<Plan> cpu_generic_backward(const Problem& problem, const Target& target, const Target::Tile& tile,
                                  const PlanOptions& options) {
  const auto grid = GenericLayout::backward_grid(problem.b, problem.hq, problem.hk, problem.sq, problem.sk,
                                                 bias_matrices(problem), problem.sink);
  return one_stage(problem, target, Family::backward, options,
                   stage_of(problem, target, "generic_backward", &tile, grid.total(),
                            GenericLayout(problem.d, problem.dv).backward_bytes()));
}

}  // namespace regard
