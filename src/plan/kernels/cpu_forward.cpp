// kernels/cpu/forward.cpp: up to block_q query rows per block, of one head or of some that share K and V,
// against all keys or one part of them.
#include <algorithm>
#include <cmath>

#include "kernels/cpu/forward_layout.h"
#include "kernels/cpu/forward_schedule.h"
#include "plan/cost.h"
#include "plan/kernels/cpu_tile_sizes.h"
#include "plan/kernels/kernels.h"
#include "plan/plan_parts.h"
#include "plan/recipe.h"

namespace regard {
namespace {

/// Query heads whose rows share blocks: those of a K/V head, if each has so few rows that they would not
/// fill tiles, or would all read and pack the same keys. With dropout, heads stay separate. With
/// batch_invariant they are packed, however long the longest sequence of the batch is.
std::int64_t pack_gqa(const Problem& p) {
  constexpr std::int64_t many_rows = 512;  // fill their tiles, and the largest blocks
  const bool together = p.dropout == 0 && (p.sq < many_rows || p.batch_invariant);
  return together ? p.hq / p.hk : 1;
}

/// How many blocks of `block_rows` rows there are.
std::int64_t blocks_of_rows(const Problem& p, std::int64_t block_rows) {
  const std::int64_t heads = pack_gqa(p), rows = product({heads, p.sq});
  return rows > 0 ? product({p.b, p.hq / heads, ceil_divide(rows, block_rows)}) : 0;
}

/// Many rows share the reading and packing of K and V, and many blocks keep all threads busy to the end: up
/// to 256 rows if that leaves four blocks per thread, up to block_q if it leaves eight, fewer otherwise; the
/// blocks of a head, or of heads that are packed, have equal sizes.
std::int64_t rows_of_block(const Problem& p, const Target::Tile& tile, int threads) {
  const std::int64_t block_q = tile.algorithm.block_q;
  constexpr std::int64_t least = CpuForwardLayout::tile, enough = 256;
  const std::int64_t of_thread = product({p.hq, query_tokens(p)}) / threads;
  const std::int64_t share = std::max(std::min(of_thread / 4, enough), of_thread / 8);
  const std::int64_t rows = product({pack_gqa(p), p.sq});
  const std::int64_t blocks = ceil_divide(rows, std::max(std::min(block_q, share), least));
  return round_up(ceil_divide(rows, std::max<std::int64_t>(blocks, 1)), least);
}

CpuForwardSchedule whole_blocks(const Plan& plan, const Target::Tile& tile) {
  CpuForwardSchedule schedule;
  schedule.pack_gqa = pack_gqa(plan.problem);
  schedule.block_rows = rows_of_block(plan.problem, tile, plan.workers);
  schedule.part_rows = std::max<std::int64_t>(schedule.block_rows, CpuForwardLayout::tile);
  schedule.whole_blocks = blocks_of_rows(plan.problem, schedule.block_rows);
  schedule.side_by_side = plan.workers;
  return schedule;
}

/// Of many cores some are slow because of other load on them. With the last block of each thread cut in
/// four, or into whole tiles, a slow core has less left when the others have finished. Eight threads gain
/// nothing from it, two lose; the last blocks of a causal mask are small anyway, as are those of a single
/// head (docs/cpu-kernels.md).
void cut_last_blocks(CpuForwardSchedule& schedule, const Plan& plan) {
  constexpr std::int64_t parts = 4, few_threads = 8;
  const Problem& p = plan.problem;
  const bool last_are_small = p.mask != Mask::none && p.window_left < 0 && schedule.pack_gqa == 1;
  if (plan.workers <= few_threads || last_are_small) return;
  schedule.part_rows =
      round_up(ceil_divide(std::max<std::int64_t>(schedule.block_rows, 1), parts), CpuForwardLayout::tile);
  schedule.whole_blocks = std::max<std::int64_t>(schedule.whole_blocks - plan.workers, 0);
}

CpuForwardLayout layout_of(const KernelKey& key, const Target& target) {
  const Signature& s = key.signature;
  const Algorithm& a = key.algorithm;
  const bool gathers = s.paged || s.kv != s.dtype || s.k_rope;
  return CpuForwardLayout({.depth = operand_depth(s.dtype, target, s.d),
                           .key_depth = operand_depth(s.dtype, target, a.block_k),
                           .pieces = operand_pieces(s.dtype, target),
                           .dv = s.dv,
                           .block_q = a.block_q,
                           .block_k = a.block_k,
                           .bias = has_elementwise_bias(s.bias),
                           .gathered_bytes = gathers ? static_cast<std::int64_t>(bytes_of(s.dtype)) : 0,
                           .d = s.d});
}

Stage forward_stage(const Plan& plan, const Target::Tile& tile, CpuForwardSchedule schedule) {
  const std::int64_t cut = blocks_of_rows(plan.problem, schedule.block_rows) - schedule.whole_blocks;
  const std::int64_t parts = product({cut, ceil_divide(schedule.block_rows, schedule.part_rows)});
  const KernelKey key = key_of(plan.problem, *plan.target, cpu_forward, &tile);
  Stage stage = stage_of(cpu_forward, key, product({sum({schedule.whole_blocks, parts}), plan.splits}),
                         layout_of(key, *plan.target).total_of(plan.problem.sk, tile.algorithm.block_k));
  static_cast<SplitKeys&>(schedule) = split_keys_of(plan);
  stage.schedule = Schedule(schedule);
  return stage;
}

Refusal split_pays(const Question& q) {
  if (!may_split(q)) return {};
  const std::int64_t blocks = blocks_of_rows(q.problem, q.candidate.tile->algorithm.block_q);
  if (Refusal refusal = blocks_are_few(q, blocks, workers(q.target, q.options))) return refusal;
  return keys_are_many(q, 2 * least_split_keys);
}

std::span<const Rule> own_rules() {
  static constexpr Rule list[] = {{"forward_tile_sizes", forward_tile_sizes},
                                  {"split_pays", split_pays, true},
                                  {"split_is_invariant", split_is_invariant}};
  return list;
}

/// K and V are packed first, for each block of rows: read, and written. Not counted are the keys that parts
/// of the last blocks pack again. K may be read in place, but its layout is not known here.
Seconds seconds(const Plan& plan, const Stage& stage) {
  const auto schedule = stage.schedule.as<CpuForwardSchedule>();
  const bool together = schedule.pack_gqa > 1;
  const double rows = static_cast<double>(schedule.pack_gqa) * static_cast<double>(plan.problem.sq);
  const double row_blocks =
      std::ceil(rows / static_cast<double>(std::max<std::int64_t>(schedule.block_rows, 1)));
  const Seconds computing =
      seconds_to_compute(plan, CpuForwardLayout::tile, together, flops_per_second(plan, plan.problem.dtype));
  return (computing + 2 * row_blocks * seconds_to_read(plan, together)) / busy_workers(plan, stage, 1);
}

std::vector<ScheduleNumber> schedule_numbers(const Schedule& bytes) {
  const auto s = bytes.as<CpuForwardSchedule>();
  return {{"block_rows", s.block_rows},
          {"pack_gqa", s.pack_gqa},
          {"part_rows", s.part_rows},
          {"whole_blocks", s.whole_blocks}};
}

constexpr AlgorithmField required[] = {&Algorithm::block_q, &Algorithm::block_k};

}  // namespace

Result<Plan> plan_cpu_forward(const Problem& problem, const Target& target, const Target::Tile& tile,
                              const PlanOptions& options) {
  Plan plan = start(problem, target, options);
  CpuForwardSchedule schedule = whole_blocks(plan, tile);
  cut_last_blocks(schedule, plan);
  plan.stages = {forward_stage(plan, tile, schedule)};
  return finish(std::move(plan));
}

Result<Plan> plan_cpu_forward_split(const Problem& problem, const Target& target, const Target::Tile& tile,
                                    const PlanOptions& options) {
  Plan plan = start(problem, target, options);
  const CpuForwardSchedule schedule = whole_blocks(plan, tile);
  split_as_asked(plan, parts_for_workers(plan, schedule.whole_blocks), tile.algorithm.block_k);
  plan.stages = {forward_stage(plan, tile, schedule)};
  merge_on_cpu(plan);
  return finish(std::move(plan));
}

const Kernel cpu_forward{.name = "cpu_forward",
                         .depends_on = forward_on_cpu,
                         .schedule = {"CpuForwardSchedule", sizeof(CpuForwardSchedule), schedule_numbers},
                         .required = required,
                         .rules = own_rules,
                         .seconds = seconds};

}  // namespace regard
