// kernels/portable/forward.cu: one block per tile of query rows of a head and part of the keys.
#include <algorithm>

#include "kernels/portable/forward_layout.h"
#include "plan/cpu_parts.h"
#include "plan/gpu_plans.h"

namespace regard {
namespace {

Stage forward_stage(const Plan& plan, const Target::Tile& tile, std::int64_t row_blocks) {
  const Problem& p = plan.problem;
  const auto value = [&tile](std::string_view name) { return value_of(tile, name); };
  const portable::ForwardLayout layout(static_cast<std::int64_t>(bytes_of(p.dtype)), p.d, p.dv,
                                       value("block_q"), value("block_k"), value("block_d"),
                                       value("block_dv"), value("stages"));
  Stage stage = stage_of(p, *plan.target, "forward", &tile, product({row_blocks, plan.splits}), 0);
  stage.shared_bytes = layout.total();
  return stage;
}

std::int64_t row_blocks(const Problem& p, const Target::Tile& tile) {
  return product({p.b, p.hq, ceil_divide(p.sq, value_of(tile, "block_q"))});
}

/// A wave of threads merges a row.
Stage combine_stage(const Problem& p, const Target& target) {
  const Target::Tile* tile = first_tile(target, "combine");
  return stage_of(p, target, "combine", tile,
                  product({p.b, p.hq, ceil_divide(p.sq, value_of(*tile, "warps"))}), 0);
}

}  // namespace

Result<Plan> portable_forward(const Problem& problem, const Target& target, const Target::Tile& tile,
                              const PlanOptions& options) {
  Plan plan = start(problem, target, options);
  plan.block_rows = value_of(tile, "block_q");
  plan.stages = {forward_stage(plan, tile, row_blocks(problem, tile))};
  return finish(std::move(plan));
}

Result<Plan> portable_forward_split(const Problem& problem, const Target& target, const Target::Tile& tile,
                                    const PlanOptions& options) {
  Plan plan = start(problem, target, options);
  plan.block_rows = value_of(tile, "block_q");
  // Two blocks per multiprocessor.
  const std::int64_t blocks = row_blocks(problem, tile);
  const std::int64_t wanted = ceil_divide(2 * plan.threads, std::max<std::int64_t>(blocks, 1));
  const std::int64_t most = std::clamp<std::int64_t>(problem.sk / least_split_keys, 1, most_splits);
  split_as_asked(plan, std::clamp<std::int64_t>(wanted, 1, most), value_of(tile, "block_k"));
  plan.stages = {forward_stage(plan, tile, blocks)};
  combine_parts(plan);
  if (plan.splits > 1) plan.stages.back() = combine_stage(problem, target);
  return finish(std::move(plan));
}

}  // namespace regard
