// kernels/portable/forward.cu: one block per tile of query rows of a head and part of the keys.
#include "plan/gpu_plans.h"
#include "plan/plan_parts.h"

namespace regard {
namespace {

/// Some of the second-level cache of any GPU.
constexpr std::int64_t cache_bytes = std::int64_t{16} << 20;

Plan start_portable(const Problem& p, const Target& target, const Target::Tile& tile,
                    const PlanOptions& options) {
  Plan plan = start(p, target, options);
  plan.block_rows = value_of(tile, "block_q");
  plan.side_by_side = pairs_side_by_side(p, cache_bytes);
  return plan;
}

std::int64_t row_blocks(const Problem& p, const Target::Tile& tile) {
  return product({p.b, p.hq, ceil_divide(p.sq, value_of(tile, "block_q"))});
}

Stage forward_stage(const Plan& plan, const Target::Tile& tile) {
  const Problem& p = plan.problem;
  Stage stage = stage_of(p, *plan.target, "forward", &tile, product({row_blocks(p, tile), plan.splits}), 0);
  stage.shared_bytes = dynamic_shared_bytes(stage.kernel);
  return stage;
}

}  // namespace

portable::ForwardLayout portable_layout(const Problem& p, const Target::Tile& tile) {
  const auto value = [&tile](std::string_view name) { return value_of(tile, name); };
  return {static_cast<std::int64_t>(bytes_of(p.dtype)),
          p.d,
          p.dv,
          value("block_q"),
          value("block_k"),
          value("block_d"),
          value("block_dv"),
          value("stages")};
}

Result<Plan> portable_forward(const Problem& problem, const Target& target, const Target::Tile& tile,
                              const PlanOptions& options) {
  Plan plan = start_portable(problem, target, tile, options);
  plan.stages = {forward_stage(plan, tile)};
  return finish(std::move(plan));
}

Result<Plan> portable_forward_split(const Problem& problem, const Target& target, const Target::Tile& tile,
                                    const PlanOptions& options) {
  Plan plan = start_portable(problem, target, tile, options);
  split_as_asked(plan, parts_for_workers(plan, row_blocks(problem, tile)), value_of(tile, "block_k"));
  plan.stages = {forward_stage(plan, tile)};
  combine_parts(plan);
  return finish(std::move(plan));
}

}  // namespace regard
