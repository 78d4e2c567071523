// kernels/cpu/forward.cpp: block_q query rows of one head per block, against all keys or one part of them.
// The paged kernels find their keys through a page table and are alike beyond that.
#include <algorithm>

#include "kernels/cpu/forward_layout.h"
#include "plan/cpu_parts.h"
#include "plan/cpu_plans.h"

namespace regard {
namespace {

/// Pages are looked up once for all query heads of a K/V head, whose rows share the blocks.
std::int64_t row_blocks(const Problem& p, const Target::Tile& tile) {
  const std::int64_t heads = p.paged > 0 ? p.hk : p.hq, rows = p.paged > 0 ? group_rows(p) : p.sq;
  return product({p.b, heads, ceil_divide(rows, value_of(tile, "block_q"))});
}

Stage forward_stage(const Plan& plan, const Target::Tile& tile) {
  const Problem& p = plan.problem;
  const std::int64_t block_k = value_of(tile, "block_k");
  const ForwardLayout layout(operand_depth(p, *plan.target, p.d), operand_depth(p, *plan.target, block_k),
                             p.dv, value_of(tile, "block_q"), block_k, has_elementwise_bias(p.bias));
  return stage_of(p, *plan.target, tile.kernel, &tile, product({row_blocks(p, tile), plan.splits}),
                  layout.total());
}

/// Enough parts for two blocks per thread.
std::int64_t wanted_splits(const Problem& p, const Target::Tile& tile, int threads) {
  const std::int64_t wanted = ceil_divide(2 * threads, std::max<std::int64_t>(row_blocks(p, tile), 1));
  return std::clamp<std::int64_t>(wanted, 1,
                                  std::clamp<std::int64_t>(p.sk / least_split_keys, 1, most_splits));
}

}  // namespace

Result<Plan> cpu_forward(const Problem& problem, const Target& target, const Target::Tile& tile,
                         const PlanOptions& options) {
  Plan plan = start(problem, target, options);
  plan.stages = {forward_stage(plan, tile)};
  return finish(std::move(plan));
}

Result<Plan> cpu_forward_split(const Problem& problem, const Target& target, const Target::Tile& tile,
                               const PlanOptions& options) {
  Plan plan = start(problem, target, options);
  split_as_asked(plan, wanted_splits(problem, tile, plan.threads), value_of(tile, "block_k"));
  plan.stages = {forward_stage(plan, tile)};
  combine_parts(plan);
  return finish(std::move(plan));
}

}  // namespace regard
