// kernels/cpu/forward.cpp: up to block_q query rows of one head per block, against all keys or one part of
// them. The paged kernels find their keys through a page table and are alike beyond that.
#include <algorithm>

#include "kernels/cpu/forward_layout.h"
#include "plan/cpu_plans.h"
#include "plan/plan_parts.h"

namespace regard {
namespace {

/// Many rows share what is read and packed of K and V, and many blocks keep all threads busy to the end: up
/// to 256 rows where that leaves four blocks per thread, up to block_q where it leaves eight, fewer
/// otherwise; the blocks of a head of equal size.
std::int64_t rows_of_block(const Problem& p, const Target::Tile& tile, int threads) {
  const std::int64_t block_q = value_of(tile, "block_q");
  if (p.paged > 0) return block_q;
  constexpr std::int64_t least = ForwardLayout::tile, enough = 256;
  const std::int64_t of_thread = product({p.b, p.hq, p.sq}) / threads;
  const std::int64_t share = std::max(std::min(of_thread / 4, enough), of_thread / 8);
  const std::int64_t blocks = ceil_divide(p.sq, std::max(std::min(block_q, share), least));
  return round_up(ceil_divide(p.sq, std::max<std::int64_t>(blocks, 1)), least);
}

/// Pages are looked up once for all query heads of a K/V head, whose rows share the blocks.
std::int64_t row_blocks(const Plan& plan) {
  const Problem& p = plan.problem;
  const std::int64_t heads = p.paged > 0 ? p.hk : p.hq, rows = p.paged > 0 ? group_rows(p) : p.sq;
  return rows > 0 ? product({p.b, heads, ceil_divide(rows, plan.block_rows)}) : 0;
}

ForwardLayout layout_of(const Plan& plan, const Target::Tile& tile) {
  const Problem& p = plan.problem;
  const std::int64_t block_k = value_of(tile, "block_k");
  return ForwardLayout(operand_depth(p, *plan.target, p.d), operand_depth(p, *plan.target, block_k), p.dv,
                       value_of(tile, "block_q"), block_k, has_elementwise_bias(p.bias));
}

/// Whether K and V are packed once for all blocks of rows that read them. Only for the tile unit, which takes
/// them in an order far from that of memory; where three blocks or more read a step of the keys, and as many
/// as there are threads, since lines of memory that other cores hold are stored no faster by many threads
/// than by one (docs/cpu.md), while blocks pack side by side; where a thread has a millisecond of work,
/// beside which waking the threads once more is little; and where whole steps are not much more than the
/// keys. Of packed sequences averages are known.
bool packs_once(const Plan& plan, std::int64_t block_k, std::int64_t packed_bytes) {
  const Problem& p = plan.problem;
  if (row_blocks(plan) == 0 || p.sk == 0 || p.paged > 0 || !tile_unit(p, *plan.target)) return false;
  const std::int64_t many_readers = std::max(plan.threads, 3);
  constexpr double much_work = 0.4e9;  // flops of a thread
  const std::int64_t readers =
      product({p.hq / p.hk, ceil_divide(queries_of_block(p, block_k), plan.block_rows)});
  const auto filled = [&](std::int64_t tokens, std::int64_t longest) {
    return static_cast<double>(tokens) / (static_cast<double>(p.b) * static_cast<double>(longest));
  };
  const double work = flops(p) * filled(query_tokens(p), p.sq) * filled(key_tokens(p), p.sk);
  const std::int64_t bytes =
      product({p.hk, key_tokens(p), p.d + p.dv, static_cast<std::int64_t>(bytes_of(p.dtype))});
  return readers >= many_readers && (plan.threads == 1 || work >= much_work * plan.threads) &&
         packed_bytes / 2 <= bytes;
}

/// The blocks of rows and, before them, those that pack.
std::vector<Stage> forward_stages(Plan& plan, const Target::Tile& tile) {
  const Problem& p = plan.problem;
  const ForwardLayout layout = layout_of(plan, tile);
  const auto stage = [&](std::int64_t grid, std::int64_t scratch_bytes) {
    return stage_of(p, *plan.target, tile.kernel, &tile, grid, scratch_bytes);
  };
  std::vector<Stage> stages;
  const std::int64_t block_k = value_of(tile, "block_k");
  const std::int64_t packed_bytes =
      product({p.hk, ForwardLayout::most_steps(p.b, key_tokens(p), block_k), layout.step()});
  if (packs_once(plan, block_k, packed_bytes)) {
    need(plan.workspace, Part::packed_steps, packed_bytes);
    stages.push_back(stage(product({p.b, p.hk, ceil_divide(p.sk, block_k)}), 0));
    stages.back().packs = true;
  }
  stages.push_back(stage(product({row_blocks(plan), plan.splits}), layout.total()));
  return stages;
}

}  // namespace

Result<Plan> cpu_forward(const Problem& problem, const Target& target, const Target::Tile& tile,
                         const PlanOptions& options) {
  Plan plan = start(problem, target, options);
  plan.block_rows = rows_of_block(problem, tile, plan.threads);
  plan.side_by_side = plan.threads;
  plan.stages = forward_stages(plan, tile);
  return finish(std::move(plan));
}

Result<Plan> cpu_forward_split(const Problem& problem, const Target& target, const Target::Tile& tile,
                               const PlanOptions& options) {
  Plan plan = start(problem, target, options);
  plan.block_rows = rows_of_block(problem, tile, plan.threads);
  plan.side_by_side = plan.threads;
  split_as_asked(plan, parts_for_workers(plan, row_blocks(plan)), value_of(tile, "block_k"));
  plan.stages = forward_stages(plan, tile);
  combine_parts(plan);
  return finish(std::move(plan));
}

}  // namespace regard
