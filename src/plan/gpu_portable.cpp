// kernels/portable/forward.cu: one block per tile of query rows of a head and part of the keys.
#include "plan/gpu_plans.h"
#include "plan/plan_parts.h"

namespace regard {
namespace {

/// Some of the second-level cache of any GPU.
constexpr std::int64_t cache_bytes = std::int64_t{16} << 20;

/// The problem as the kernel has it.
Problem with_heads_as_rows(const Problem& problem) {
  const std::int64_t heads = heads_as_rows(problem);
  if (heads == 1) return problem;
  Problem p = problem;
  p.hq /= heads;
  p.sq *= heads;
  p.mask = Mask::none;
  return p;
}

/// Of that one.
Plan start_portable(const Problem& problem, const Target& target, const Target::Tile& tile,
                    const PlanOptions& options) {
  Plan plan = start(with_heads_as_rows(problem), target, options);
  plan.heads_as_rows = heads_as_rows(problem);
  plan.block_rows = value_of(tile, "block_q");
  plan.side_by_side = pairs_side_by_side(plan.problem, cache_bytes);
  return plan;
}

/// Of the caller's problem.
Result<Plan> finish_portable(Plan plan, const Problem& problem) {
  plan.problem = problem;
  return finish(std::move(plan));
}

std::int64_t row_blocks(const Problem& p, std::int64_t block_q) {
  return product({p.b, p.hq, ceil_divide(p.sq, block_q)});
}

Stage forward_stage(const Plan& plan, const Target::Tile& tile) {
  const Problem& p = plan.problem;
  Stage stage =
      stage_of(p, *plan.target, "forward", &tile, product({row_blocks(p, plan.block_rows), plan.splits}), 0);
  stage.shared_bytes = dynamic_shared_bytes(stage.kernel);
  return stage;
}

}  // namespace

std::int64_t heads_as_rows(const Problem& p) {
  const bool by_head = p.bias != Bias::none || p.sink || p.dropout > 0 || p.bits || p.ranges;
  const bool alike = p.sq == 1 && mask_hides_nothing(p) && !p.varlen && !by_head && !p.batch_invariant;
  return alike ? p.hq / p.hk : 1;
}

std::int64_t portable_work(const Problem& p, std::int64_t block_q) {
  return row_blocks(with_heads_as_rows(p), block_q);
}

portable::ForwardLayout portable_layout(const Problem& p, const Target::Tile& tile) {
  const auto value = [&tile](std::string_view name) { return value_of(tile, name); };
  return {static_cast<std::int64_t>(bytes_of(p.dtype)),
          p.d,
          p.dv,
          value("block_q"),
          value("block_k"),
          value("block_d"),
          value("block_dv"),
          value("stages"),
          value("warps_across")};
}

Result<Plan> portable_forward(const Problem& problem, const Target& target, const Target::Tile& tile,
                              const PlanOptions& options) {
  Plan plan = start_portable(problem, target, tile, options);
  plan.stages = {forward_stage(plan, tile)};
  return finish_portable(std::move(plan), problem);
}

Result<Plan> portable_forward_split(const Problem& problem, const Target& target, const Target::Tile& tile,
                                    const PlanOptions& options) {
  Plan plan = start_portable(problem, target, tile, options);
  const std::int64_t block_k = value_of(tile, "block_k"), parts = parts_of_long_rows(problem);
  split_as_asked(plan, parts_for_workers(plan, row_blocks(plan.problem, plan.block_rows)), block_k);
  if (plan.splits < parts) split_keys(plan, parts, block_k);
  plan.stages = {forward_stage(plan, tile)};
  combine_parts(plan);
  return finish_portable(std::move(plan), problem);
}

}  // namespace regard
