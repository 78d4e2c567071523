// kernels/cpu/forward.cpp: up to block_q query rows per block, of one head or of some that share K and V,
// against all keys or one part of them. The paged kernels find their keys through a page table and are alike
// beyond that.
#include <algorithm>

#include "kernels/cpu/forward_layout.h"
#include "plan/cpu_plans.h"
#include "plan/plan_parts.h"

namespace regard {
namespace {

/// Many rows share what is read and packed of K and V, and many blocks keep all threads busy to the end: up
/// to 256 rows where that leaves four blocks per thread, up to block_q where it leaves eight, fewer
/// otherwise; the blocks of a head, or of heads that go together, of equal size.
std::int64_t rows_of_block(const Problem& p, const Target::Tile& tile, int threads) {
  const std::int64_t block_q = value_of(tile, "block_q");
  constexpr std::int64_t least = ForwardLayout::tile, enough = 256;
  const std::int64_t of_thread = product({p.hq, query_tokens(p)}) / threads;
  const std::int64_t share = std::max(std::min(of_thread / 4, enough), of_thread / 8);
  const std::int64_t rows = product({heads_together(p), p.sq});
  const std::int64_t blocks = ceil_divide(rows, std::max(std::min(block_q, share), least));
  return round_up(ceil_divide(rows, std::max<std::int64_t>(blocks, 1)), least);
}

std::int64_t row_blocks(const Plan& plan) {
  return cpu_row_blocks(plan.problem, plan.block_rows);
}

void size_blocks(Plan& plan, const Target::Tile& tile) {
  plan.heads_together = heads_together(plan.problem);
  plan.block_rows = rows_of_block(plan.problem, tile, plan.threads);
  plan.part_rows = std::max<std::int64_t>(plan.block_rows, ForwardLayout::tile);
  plan.whole_blocks = row_blocks(plan);
  plan.side_by_side = plan.threads;
}

/// Of many cores some are slow, as they have neighbours: with the last block of each thread cut in four, or
/// in whole tiles, a slow one has less in hand when the others have nothing left. Eight threads gain nothing
/// by it, two lose; the last blocks of a causal mask are small anyway, those of one head
/// (docs/cpu-kernels.md).
void cut_last_blocks(Plan& plan) {
  constexpr std::int64_t parts = 4, few_threads = 8;
  const Problem& p = plan.problem;
  const bool last_are_small = p.mask != Mask::none && p.window_left < 0 && plan.heads_together == 1;
  if (plan.threads <= few_threads || last_are_small) return;
  plan.part_rows =
      round_up(ceil_divide(std::max<std::int64_t>(plan.block_rows, 1), parts), ForwardLayout::tile);
  plan.whole_blocks = std::max<std::int64_t>(plan.whole_blocks - plan.threads, 0);
}

ForwardLayout layout_of(const Plan& plan, const Target::Tile& tile) {
  const Problem& p = plan.problem;
  const std::int64_t block_k = value_of(tile, "block_k");
  return ForwardLayout(operand_depth(p, *plan.target, p.d), operand_depth(p, *plan.target, block_k),
                       operand_pieces(p, *plan.target), p.dv, value_of(tile, "block_q"), block_k,
                       has_elementwise_bias(p.bias));
}

Stage forward_stage(const Plan& plan, const Target::Tile& tile) {
  const std::int64_t cut = row_blocks(plan) - plan.whole_blocks;
  const std::int64_t parts = product({cut, ceil_divide(plan.block_rows, plan.part_rows)});
  return stage_of(plan.problem, *plan.target, tile.kernel, &tile,
                  product({sum({plan.whole_blocks, parts}), plan.splits}),
                  layout_of(plan, tile).total_of(plan.problem.sk, value_of(tile, "block_k")));
}

}  // namespace

std::int64_t heads_together(const Problem& p) {
  constexpr std::int64_t many_rows = 512;  // fill their tiles, and blocks of the largest size
  const bool together = p.dropout == 0 && (p.sq < many_rows || p.batch_invariant);
  return together ? p.hq / p.hk : 1;
}

std::int64_t cpu_row_blocks(const Problem& p, std::int64_t block_rows) {
  const std::int64_t heads = heads_together(p), rows = product({heads, p.sq});
  return rows > 0 ? product({p.b, p.hq / heads, ceil_divide(rows, block_rows)}) : 0;
}

Result<Plan> cpu_forward(const Problem& problem, const Target& target, const Target::Tile& tile,
                         const PlanOptions& options) {
  Plan plan = start(problem, target, options);
  size_blocks(plan, tile);
  cut_last_blocks(plan);
  plan.stages = {forward_stage(plan, tile)};
  return finish(std::move(plan));
}

Result<Plan> cpu_forward_split(const Problem& problem, const Target& target, const Target::Tile& tile,
                               const PlanOptions& options) {
  Plan plan = start(problem, target, options);
  size_blocks(plan, tile);
  split_as_asked(plan, parts_for_workers(plan, row_blocks(plan)), value_of(tile, "block_k"));
  plan.stages = {forward_stage(plan, tile)};
  combine_parts(plan);
  return finish(std::move(plan));
}

}  // namespace regard
