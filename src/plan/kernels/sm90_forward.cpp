// kernels/sm90/forward.cu: persistent blocks that take work from a counter, or in turn.
#include "plan/kernels/sm90_forward.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "kernels/sm90/forward_schedule.h"
#include "plan/cost.h"
#include "plan/gpu_rows.h"
#include "plan/kernels/kernels.h"
#include "plan/kernels/sm90_tile.h"
#include "plan/plan_parts.h"

namespace regard {

std::int64_t pack_gqa_rows_of_head(const Problem& p, std::int64_t block_q) {
  return Sm90ForwardLayout::pack_gqa_rows(p.sq, p.hq / p.hk, block_q);
}

std::int64_t keys_of_box(const Problem& p, std::int64_t block_k) {
  if (p.paged == 0) return 0;
  if (p.paged % block_k == 0) return block_k;
  std::int64_t rows = 64;
  while (p.paged % rows != 0 || block_k % rows != 0) rows /= 2;
  return rows < Sm90ForwardLayout::least_box_k ? 0 : rows;
}

bool gathers(const Problem& p, std::int64_t block_k) {
  return p.paged > 0 && keys_of_box(p, block_k) == 0;
}

std::int64_t pack_gqa_work(const Problem& p, std::int64_t block_q) {
  return ceil_divide(p.hq / p.hk * pack_gqa_rows_of_head(p, block_q), block_q);
}

std::int64_t sm90_work(const Problem& p, std::int64_t block_q, std::int64_t cluster) {
  if (const std::int64_t row_blocks = pack_gqa_work(p, block_q); row_blocks > 0)
    return product({p.hk, p.b, row_blocks});
  // Every packed sequence may end with a block that is not full.
  if (p.varlen) return product({p.hq, sum({ceil_divide(query_tokens(p), block_q), p.b})});
  return product({p.hq, p.b, round_up(ceil_divide(p.sq, block_q), cluster)});
}

Sm90ForwardLayout sm90_layout(const Signature& s, const Algorithm& a) {
  return Sm90ForwardLayout(sm90_tile_shape(s, a));
}

namespace {

std::int64_t shared_bytes(const KernelKey& key) {
  return sm90_layout(key).total();
}

/// The part of the L2 cache for K and V.
constexpr std::int64_t cache_bytes = std::int64_t{32} << 20;

constexpr std::int64_t most_batch_heads = std::numeric_limits<i32>::max();

/// Rounds of blocks that end evenly if the longest work goes first.
constexpr std::int64_t last_rounds = 4;

/// Whether K and V would be read at more than a quarter of the memory's rate if products ran at their full
/// rate.
bool memory_limits(const Problem& p, const Target& target) {
  const auto rate = target.gflops.find(p.dtype);
  const double bytes = static_cast<double>(p.b) * static_cast<double>(p.hk) *
                       static_cast<double>(visible_keys(p)) * static_cast<double>(p.d + p.dv) *
                       static_cast<double>(bytes_of(p.dtype));
  return rate != target.gflops.end() && flops(p) / rate->second < 4 * bytes / target.gigabytes_per_second;
}

/// The groups in which (batch, head) pairs are processed, with `heads` of them per sequence.
Sm90ForwardSchedule grouped_batch_heads(const Plan& plan, std::int64_t work, std::int64_t heads) {
  const Problem& p = plan.problem;
  Sm90ForwardSchedule schedule{split_seen_keys_of(plan)};
  const auto group = [&schedule](std::int64_t batch_heads) {
    schedule.side_by_side = static_cast<i32>(std::min(batch_heads, most_batch_heads));
    return schedule;
  };
  const std::int64_t sharing = heads / p.hk;  // pairs that share K and V
  // All work has the same size: each K and V is read from memory once.
  if (every_row_sees_all_keys(p)) return group(sharing);
  // Sequences of different lengths are processed one after the other, the longest first.
  const std::int64_t in_cache =
      std::max<std::int64_t>(batch_heads_side_by_side(p, cache_bytes) / (p.hq / p.hk), 1) * sharing;
  if (has_own_lengths(p)) return group(std::min(in_cache, heads));
  // A group starts with its longest work, which reads keys that no block has read yet. Small groups read
  // evenly; the last one is large, so that work ends evenly.
  const std::int64_t batch_heads = product({p.b, heads});
  const auto holding = [&](std::int64_t blocks) {
    const std::int64_t whole = blocks / std::max<std::int64_t>(work / batch_heads * sharing, 1);
    return std::min(std::max<std::int64_t>(whole, 1) * sharing, in_cache);
  };
  const std::int64_t together = holding(memory_limits(p, *plan.target) ? plan.workers / 2 : plan.workers);
  const std::int64_t before_last =
      std::max<std::int64_t>(batch_heads - holding(last_rounds * plan.workers), 0);
  schedule.before_last = static_cast<i32>(std::min(round_up(before_last, together), most_batch_heads));
  return group(together);
}

}  // namespace

Result<Plan> plan_sm90_parts(const Kernel& kernel, const Problem& p, const Target& target,
                             const Target::Tile& tile, const PlanOptions& options, std::int64_t parts) {
  Plan plan = start(p, target, options);
  const std::int64_t block_q = tile.algorithm.block_q;
  if (cuts_at_multiples(p))
    split_at_multiples(plan, tile.algorithm.block_k);
  else if (parts > 1)
    split_keys(plan, parts, tile.algorithm.block_k);
  const std::int64_t rows_of_head = pack_gqa_rows_of_head(p, block_q);
  const std::int64_t cluster = tile.algorithm.cluster_blocks();
  const std::int64_t work = product({sm90_work(p, block_q, cluster), plan.splits});
  if (work == too_large) return refused(too_many_blocks);
  const std::int64_t blocks = std::max(plan.workers / cluster, std::int64_t{1}) * cluster;  // at a time
  Stage stage = stage_of(p, target, kernel, &tile, std::min(work, blocks), 0);
  stage.shared_bytes = kernel.dynamic_shared_bytes(stage.key);
  Sm90ForwardSchedule schedule = grouped_batch_heads(plan, work, rows_of_head > 0 ? p.hk : p.hq);
  if (rows_of_head > 0) schedule.row_bits = std::countr_zero(static_cast<u64>(rows_of_head));
  schedule.box_k = static_cast<i32>(keys_of_box(p, tile.algorithm.block_k));
  stage.schedule = Schedule(schedule);
  if (rows_of_head > 0) stage.key.algorithm.pack_gqa = 1;
  if (plan.splits > 1) stage.key.algorithm.split = 1;
  if (gathers(p, tile.algorithm.block_k)) stage.key.algorithm.gather = 1;
  // Work of equal size, or one piece for each block, needs no counter, which a graph would have to clear
  // first.
  if (!every_row_sees_all_keys(p) && work > plan.workers)
    stage.counter = plan.workspace.add("counter", sizeof(std::uint32_t));
  plan.stages = {std::move(stage)};
  merge_on_gpu(plan);
  return finish(std::move(plan));
}

Result<Plan> plan_sm90_split(const Kernel& kernel, const Problem& problem, const Target& target,
                             const Target::Tile& tile, const PlanOptions& options) {
  if (problem.splits > 0 || problem.batch_invariant)
    return plan_sm90_parts(kernel, problem, target, tile, options, problem.splits);
  // At least two tiles per part: the first and the last do not overlap with other work.
  const std::int64_t most = most_parts(problem, 2 * tile.algorithm.block_k);
  const std::int64_t fewest = std::max<std::int64_t>(parts_of_long_rows(problem), 2);
  Result<Plan> best = plan_sm90_parts(kernel, problem, target, tile, options, fewest);
  if (!best) return best;
  double least = cost_seconds(*best);
  for (std::int64_t parts = fewest + 1; parts <= most; ++parts) {
    Result<Plan> other = plan_sm90_parts(kernel, problem, target, tile, options, parts);
    if (!other) continue;
    const double seconds = cost_seconds(*other);
    if (seconds >= least) continue;
    best = std::move(other);
    least = seconds;
  }
  return best;
}

Result<Plan> plan_sm90_forward(const Problem& problem, const Target& target, const Target::Tile& tile,
                               const PlanOptions& options) {
  return plan_sm90_parts(sm90_forward, problem, target, tile, options, 1);
}

Result<Plan> plan_sm90_forward_split(const Problem& problem, const Target& target, const Target::Tile& tile,
                                     const PlanOptions& options) {
  return plan_sm90_split(sm90_forward, problem, target, tile, options);
}

std::vector<ScheduleNumber> sm90_schedule_numbers(const Schedule& bytes) {
  const auto s = bytes.as<Sm90ForwardSchedule>();
  std::vector<ScheduleNumber> numbers = {{"before_last", s.before_last}, {"side_by_side", s.side_by_side}};
  if (s.row_bits > 0) numbers.push_back({"row_bits", s.row_bits});
  if (s.box_k > 0) numbers.push_back({"box_k", s.box_k});
  return numbers;
}

namespace {

constexpr Feature features[] = {Feature::wgmma, Feature::tma};
constexpr AlgorithmField required[] = {&Algorithm::block_q, &Algorithm::block_k, &Algorithm::warps,
                                       &Algorithm::stages};
constexpr AlgorithmField optional[] = {&Algorithm::warp_groups, &Algorithm::cluster};

}  // namespace

const Kernel sm90_forward{
    .name = "sm90_forward",
    .features = features,
    .depends_on = inner_loop_on_hopper,
    .schedule = {"Sm90ForwardSchedule", sizeof(Sm90ForwardSchedule), sm90_schedule_numbers},
    .required = required,
    .optional = optional,
    .rules = sm90_forward_rules,
    .seconds = sm90_forward_seconds,
    .dynamic_shared_bytes = shared_bytes,
    .variants = sm90_forward_variants,
    .boxes = sm90_forward_boxes};

}  // namespace regard
