// append_kv: new keys and values go into the cache, block_k tokens of one sequence per block, and the queries
// are rotated in the same stage.
#include <algorithm>

#include "plan/cpu_plans.h"
#include "plan/plan_parts.h"
#include "plan/rules.h"
#include "plan/stage.h"

namespace regard {
namespace {

Stage append_stage(const Plan& plan, const Target::Tile& tile) {
  const Problem& p = plan.problem;
  const std::int64_t rotated = p.rope == Rope::none ? 0 : p.sq;
  const std::int64_t blocks = ceil_divide(std::max(p.snew, rotated), value_of(tile, "block_k"));
  return stage_of(p, *plan.target, "append_kv", &tile, product({p.b, blocks}), 0);
}

}  // namespace

const Target::Tile* append_tile(const Problem& p, const Target& target) {
  for (const Target::Tile& tile : target.tiles) {
    const bool dtype = std::find(tile.dtypes.begin(), tile.dtypes.end(), p.dtype) != tile.dtypes.end();
    if (tile.kernel == "append_kv" && dtype && p.d <= tile.max_d && p.dv <= tile.max_dv) return &tile;
  }
  return nullptr;
}

Result<Plan> append_alone(const Problem& problem, const Target& target, const Target::Tile& tile,
                          const PlanOptions& options) {
  Plan plan = start(problem, target, options);
  plan.stages = {append_stage(plan, tile)};
  return finish(std::move(plan));
}

/// Attention then runs as ever: over queries that lie rotated in the workspace, as the caller's stay as they
/// are, and over lengths that count the new tokens.
Result<Plan> append_first(Plan plan) {
  const Problem& p = plan.problem;
  plan.family = Family::append_kv;
  plan.stages.insert(plan.stages.begin(), append_stage(plan, *append_tile(p, *plan.target)));
  if (p.rope != Rope::none) {
    need(plan.workspace, Part::rotated_q,
         product({p.b, p.sq, p.hq, p.d, static_cast<std::int64_t>(bytes_of(p.dtype))}));
  }
  if (p.lengths) need(plan.workspace, Part::new_lengths, product({p.b, 4}));
  return finish(std::move(plan));
}

}  // namespace regard
