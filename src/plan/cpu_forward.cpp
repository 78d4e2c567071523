// kernels/cpu/forward.cpp: block_q query rows of one head per block, against all keys or one part of them.
#include <algorithm>

#include "kernels/cpu/forward_layout.h"
#include "plan/cpu_parts.h"
#include "plan/cpu_plans.h"

namespace regard {
namespace {

std::int64_t row_blocks(const Problem& p, const Target::Tile& tile) {
  return product({p.b, p.hq, ceil_divide(p.sq, value_of(tile, "block_q"))});
}

Stage forward_stage(const Plan& plan, const Target::Tile& tile) {
  const Problem& p = plan.problem;
  const std::int64_t block_k = value_of(tile, "block_k");
  const ForwardLayout layout(operand_depth(p, *plan.target, p.d), operand_depth(p, *plan.target, block_k),
                             p.dv, value_of(tile, "block_q"), block_k, has_elementwise_bias(p.bias));
  return stage_of(p, *plan.target, "forward", &tile, product({row_blocks(p, tile), plan.splits}),
                  layout.total());
}

/// Enough parts for two blocks per thread.
std::int64_t wanted_splits(const Problem& p, const Target::Tile& tile, int threads) {
  if (p.splits > 0) return p.splits;
  const std::int64_t wanted = ceil_divide(2 * threads, std::max<std::int64_t>(row_blocks(p, tile), 1));
  return std::clamp<std::int64_t>(wanted, 1,
                                  std::clamp<std::int64_t>(p.sk / least_split_keys, 1, most_splits));
}

}  // namespace

Result<Plan> cpu_forward(const Problem& problem, const Target& target, const Target::Tile& tile,
                         const PlanOptions& options) {
  Plan plan = start(problem, target, Family::forward, options);
  plan.stages = {forward_stage(plan, tile)};
  return finish(std::move(plan));
}

Result<Plan> cpu_forward_split(const Problem& problem, const Target& target, const Target::Tile& tile,
                               const PlanOptions& options) {
  Plan plan = start(problem, target, Family::split_kv, options);
  split_keys(plan, wanted_splits(problem, tile, plan.threads), value_of(tile, "block_k"));
  plan.stages = {forward_stage(plan, tile)};
  if (plan.splits > 1) {
    need_partials(plan);
    plan.stages.push_back(combine_stage(plan));
  }
  return finish(std::move(plan));
}

}  // namespace regard
