#include "plan/cpu_plans.h"

#include <algorithm>

#include "kernels/cpu/forward_layout.h"
#include "plan/cpu_parts.h"
#include "plan/stage.h"

namespace regard {

Plan start(const Problem& problem, const Target& target, Family family, const PlanOptions& options) {
  Plan plan;
  plan.problem = problem;
  plan.target = &target;
  plan.family = family;
  plan.threads = options.threads;
  plan.split_keys = problem.sk;
  return plan;
}

Result<Plan> finish(Plan plan) {
  std::int64_t scratch = 0;
  for (const Stage& stage : plan.stages) scratch = std::max(scratch, stage.scratch_bytes);
  need(plan.workspace, Part::scratch, product({scratch, plan.threads}));
  if (Status status = lay_out(plan.workspace); !status) return tl::unexpected(status.error());
  return plan;
}

bool pairs(const Problem& problem, const Target& target) {
  return problem.dtype == DType::bf16 && target.has("bf16_dot");
}

void split_keys(Plan& plan, std::int64_t splits, std::int64_t unit) {
  const std::int64_t keys = round_up(ceil_divide(std::max<std::int64_t>(plan.problem.sk, 1), splits), unit);
  plan.split_keys = keys;
  plan.splits = ceil_divide(std::max<std::int64_t>(plan.problem.sk, 1), keys);
}

namespace {

void need_partials(Plan& plan) {
  const Problem& p = plan.problem;
  const std::int64_t rows = product({plan.splits, p.hq, query_tokens(p)});
  need(plan.workspace, Part::partial_o, product({rows, p.dv, 4}));
  need(plan.workspace, Part::partial_lse, product({rows, 4}));
}

std::int64_t forward_scratch(const Problem& p, const Target& target, std::int64_t block_q,
                             std::int64_t block_k) {
  return ForwardLayout(pairs(p, target), p.d, p.dv, block_q, block_k, has_elementwise_bias(p.bias)).total();
}

Stage forward_stage(const Plan& plan, const Target::Tile& tile) {
  const Problem& p = plan.problem;
  const std::int64_t block_q = value_of(tile, "block_q");
  const std::int64_t grid = product({p.b, p.hq, ceil_divide(p.sq, block_q), plan.splits});
  return stage_of(p, *plan.target, "forward", &tile, grid,
                  forward_scratch(p, *plan.target, block_q, value_of(tile, "block_k")));
}

Stage combine_stage(const Plan& plan) {
  const Problem& p = plan.problem;
  return stage_of(p, *plan.target, "combine", nullptr, product({p.b, p.hq, ceil_divide(p.sq, 64)}), 0);
}

}  // namespace

std::int64_t group_rows(const Problem& p) {
  return product({p.hq / p.hk, p.sq});
}

std::int64_t decode_splits(const Problem& p, const PlanOptions& options) {
  if (p.splits > 0) return p.splits;
  constexpr std::int64_t least_keys = 512;  // below this a part costs more to merge than it saves
  if (p.batch_invariant) return ceil_divide(p.sk, 8 * least_keys);
  const std::int64_t wanted =
      ceil_divide(2 * options.threads, std::max<std::int64_t>(product({p.b, p.hk}), 1));
  return std::clamp<std::int64_t>(wanted, 1, std::max<std::int64_t>(p.sk / least_keys, 1));
}

Result<Plan> cpu_forward(const Problem& problem, const Target& target, const Target::Tile& tile,
                         const PlanOptions& options) {
  Plan plan = start(problem, target, Family::forward, options);
  plan.stages = {forward_stage(plan, tile)};
  return finish(std::move(plan));
}

Result<Plan> cpu_forward_split(const Problem& problem, const Target& target, const Target::Tile& tile,
                               const PlanOptions& options) {
  Plan plan = start(problem, target, Family::split_kv, options);
  split_keys(plan, decode_splits(problem, options), value_of(tile, "block_k"));
  need_partials(plan);
  plan.stages = {forward_stage(plan, tile), combine_stage(plan)};
  return finish(std::move(plan));
}

}  // namespace regard
