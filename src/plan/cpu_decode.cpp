// kernels/cpu/decode.cpp: `group` query rows of one K/V head per block (over all heads that share it),
// against one part of the keys, so that K and V are read once for them.
#include <algorithm>

#include "kernels/cpu/decode_layout.h"
#include "plan/cpu_plans.h"
#include "plan/plan_parts.h"

namespace regard {
namespace {

/// Heads of one part of the keys run one after the other; where tensors are [b, s, h, d] they share memory
/// pages, of which the processor remembers about this many rows.
constexpr std::int64_t most_part_keys = 2048;

}  // namespace

std::int64_t group_rows(const Problem& p) {
  return product({p.hq / p.hk, p.sq});
}

Result<Plan> cpu_decode(const Problem& problem, const Target& target, const Target::Tile& tile,
                        const PlanOptions& options) {
  const Problem& p = problem;
  Plan plan = start(p, target, options);
  const std::int64_t block_k = value_of(tile, "block_k");
  const std::int64_t for_workers = parts_for_workers(plan, product({p.b, p.hk}));
  split_as_asked(plan, std::max(for_workers, ceil_divide(p.sk, most_part_keys)), block_k);
  const DecodeLayout layout(vector_pairs(p, target), p.d, p.dv, value_of(tile, "group"), block_k);
  const std::int64_t group = value_of(tile, "group");  // gpu tiles hold all rows
  const std::int64_t row_blocks = group > 0 ? ceil_divide(group_rows(p), group) : 1;
  const std::int64_t grid = product({row_blocks, p.b, p.hk, plan.splits});
  plan.stages = {stage_of(p, target, "decode", &tile, grid, layout.total())};
  combine_parts(plan);
  return finish(std::move(plan));
}

}  // namespace regard
