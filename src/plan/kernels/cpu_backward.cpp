// Backward on the CPU: D per query row, then the gradients, one block of keys after the other, then the
// remaining ones: the gradients of a shared bias and of the learned sink.
#include <algorithm>

#include "kernels/cpu/backward_schedule.h"
#include "kernels/cpu/backward_scratch.h"
#include "kernels/cpu/long_sum_layout.h"
#include "plan/cost.h"
#include "plan/kernels/cpu_tile_sizes.h"
#include "plan/kernels/kernels.h"
#include "plan/plan_parts.h"
#include "plan/stage.h"

namespace regard {
namespace {

/// Which dimensions share one elementwise bias whose gradient is requested: it is then summed in one block.
struct Shared {
  bool batches, heads;
  bool any() const { return batches || heads; }
};

Shared shared_bias_gradient(const Problem& p) {
  if (!p.dbias) return {false, false};
  return {p.b > 1 && !has_batches(p.bias), p.hq > 1 && !has_heads(p.bias)};
}

BackwardScratch scratch_of(const KernelKey& key, const Target& target) {
  const Signature& s = key.signature;
  const Algorithm& a = key.algorithm;
  const auto depth = [&](std::int64_t n) { return operand_depth(s.dtype, target, n); };
  return BackwardScratch({.d = s.d,
                          .dv = s.dv,
                          .depth_d = depth(s.d),
                          .depth_dv = depth(s.dv),
                          .block_q = a.block_q,
                          .block_k = a.block_k,
                          .depth_q = depth(a.block_q),
                          .depth_k = depth(a.block_k),
                          .vnni = vnni(s.dtype, target),
                          .amx = tile_unit(s.dtype, target),
                          .pieces = operand_pieces(s.dtype, target),
                          .bits = s.bits,
                          .bias = has_elementwise_bias(s.bias),
                          .dbias = s.dbias,
                          .softcap = s.softcap,
                          .dropout = s.dropout});
}

/// Rows of one head that a block of `keys` keys needs, for a sequence of average length: all, or fewer with
/// a window. All rows see sink tokens, which is ignored here.
std::int64_t rows_met(const Problem& p, std::int64_t keys) {
  const std::int64_t queries = ceil_divide(query_tokens(p), std::max<std::int64_t>(p.b, 1));
  const bool window = p.mask == Mask::window || p.mask == Mask::window_top_left;
  if (!window || p.window_left < 0 || p.window_right < 0) return queries;
  return std::min(queries, sum({p.window_left, p.window_right, keys}));
}

/// dK and dV of one part of the queries, in fp32.
std::int64_t part_bytes(const Problem& p, std::int64_t keys) {
  return product({keys, padded_columns(p.d) + padded_columns(p.dv), 4});
}

/// How many parts the queries of few long heads, or groups of heads, are cut into. If parts have separate
/// blocks, blocks of keys of different parts do not wait for each other, and many short blocks remain
/// instead of few long ones: for a group at most as many as if each of its heads had its own keys. Depends
/// only on the problem, as it changes the order of additions. Each part needs memory for all of dK and dV,
/// so the queries are not cut if ranges or bits may leave most of it 0; beyond 64 MiB they are cut in
/// two, and not at all if a block sees few rows. A bias's gradient is summed by one block of keys.
std::int64_t preferred_parts(const Problem& p, std::int64_t heads, std::int64_t block_k) {
  constexpr std::int64_t many_heads = 16, many_blocks = 256, many_bytes = std::int64_t{64} << 20;
  if (p.dbias || p.ranges || p.bits) return 1;
  const auto at_most = [](std::int64_t whole, std::int64_t of_one) {
    return whole / std::max<std::int64_t>(of_one, 1);
  };
  const std::int64_t keys = ceil_divide(key_tokens(p), std::max<std::int64_t>(p.b, 1)), group = p.hq / p.hk;
  const std::int64_t of_group =
      std::min(group, at_most(many_blocks, product({heads, ceil_divide(keys, block_k)})));
  const std::int64_t preferred = std::max(at_most(many_heads, heads), of_group);
  const std::int64_t least_rows = group > 1 ? 1024 : 2048, rows = rows_met(p, block_k);
  // Most parts of the rows do not need a given block if a window is shorter than they are.
  const std::int64_t of_one_head = std::max<std::int64_t>(at_most(rows, least_rows), 1);
  const std::int64_t by_rows =
      std::min(at_most(product({rows, group}), least_rows), product({group, of_one_head}));
  const std::int64_t by_bytes = at_most(many_bytes, part_bytes(p, product({p.hk, key_tokens(p)})));
  const std::int64_t at_least = of_one_head > 1 ? 2 : 1;
  return std::max<std::int64_t>(std::min({preferred, by_rows, std::max(by_bytes, at_least)}), 1);
}

/// Cuts first between the heads of a group, whose parts are all the same, then between rows, in whole tiles.
void cut_queries(CpuBackwardSchedule& schedule, const Problem& p, std::int64_t parts, std::int64_t block_q) {
  const std::int64_t group = p.hq / p.hk, rows = std::max<std::int64_t>(p.sq, 1);
  schedule.part_heads = ceil_divide(group, std::min(parts, group));
  const std::int64_t of_rows = ceil_divide(group, schedule.part_heads);
  schedule.part_queries = round_up(ceil_divide(rows, std::max<std::int64_t>(parts / of_rows, 1)), block_q);
  schedule.query_parts = product({ceil_divide(rows, schedule.part_queries), of_rows});
}

/// Whether the sums of dK and dV of a part are long sums (long_sum.h).
bool adds_often(const CpuBackwardSchedule& schedule, std::int64_t block_q) {
  return product({ceil_divide(schedule.part_queries, block_q), schedule.part_heads}) > most_additions;
}

/// With many heads, each goes to one thread, which keeps its dQ in a near cache. With few, every block of
/// keys is a block of the grid; those of one part of the queries of a head take turns adding to dQ.
bool keys_have_blocks_of_their_own(int threads, std::int64_t heads) {
  constexpr std::int64_t enough = 8;  // heads per thread: at most an eighth of the time is lost at the end
  return heads < enough * threads && threads > 1;
}

Seconds seconds(const Plan& plan, const Stage& stage) {
  const Seconds computing = seconds_to_compute(plan, stage.key.algorithm.block_q, false,
                                               flops_per_second(plan, plan.problem.dtype));
  return std::max(computing, seconds_to_read(plan, false)) / busy_workers(plan, stage, 1);
}

std::span<const Rule> own_rules() {
  static constexpr Rule list[] = {{"backward_tile_sizes", backward_tile_sizes}};
  return list;
}

std::vector<ScheduleNumber> schedule_numbers(const Schedule& bytes) {
  const auto s = bytes.as<CpuBackwardSchedule>();
  return {{"part_heads", s.part_heads},
          {"part_queries", s.part_queries},
          {"parts_apart", s.parts_apart},
          {"query_parts", s.query_parts}};
}

constexpr KernelSchedule own_schedule{"CpuBackwardSchedule", sizeof(CpuBackwardSchedule), schedule_numbers};
constexpr AlgorithmField required[] = {&Algorithm::block_q, &Algorithm::block_k};

}  // namespace

Result<Plan> plan_cpu_backward(const Problem& problem, const Target& target, const Target::Tile& tile,
                               const PlanOptions& options) {
  const Problem& p = problem;
  Plan plan = start(p, target, options);
  const Shared shared = shared_bias_gradient(p);
  const std::int64_t heads = product({shared.batches ? 1 : p.b, shared.heads ? 1 : p.hk});
  const std::int64_t block_k = tile.algorithm.block_k;
  CpuBackwardSchedule s;
  s.side_by_side = plan.workers;
  s.key_blocks = ceil_divide(std::max<std::int64_t>(p.sk, 1), block_k);
  cut_queries(s, p, preferred_parts(p, heads, block_k), tile.algorithm.block_q);
  if (keys_have_blocks_of_their_own(plan.workers, heads)) {
    split_keys(plan, s.key_blocks, block_k);
    // Two threads hardly wait for each other.
    s.parts_apart = s.query_parts > 1 && plan.workers > 2 ? 1 : 0;
  }
  s.split_keys = plan.split_keys;

  Schedule schedule(s);
  const auto reserve = [&](auto member, std::string_view name, std::int64_t bytes) {
    schedule.point(member, plan.workspace.add(name, bytes));
  };
  const std::int64_t image_heads = product({shared.batches ? 1 : p.b, shared.heads ? 1 : p.hq});
  reserve(&CpuBackwardSchedule::delta, "delta", product({p.hq, query_tokens(p), 4}));
  const std::int64_t grad_q_bytes = product({p.hq, query_tokens(p), padded_columns(p.d), 4});
  reserve(&CpuBackwardSchedule::grad_q_sum, "grad_q_sum", grad_q_bytes);
  reserve(&CpuBackwardSchedule::grad_q_earlier, "grad_q_earlier",
          most_keys_of_row(p) > part_of_grad_q(block_k) ? grad_q_bytes : 0);
  // The only block of a head without keys stores its dQ; if there are no queries either, there is nothing to
  // store.
  const bool has_rows = query_tokens(p) > 0 || key_tokens(p) > 0;
  reserve(&CpuBackwardSchedule::progress, "progress",
          has_rows ? product({p.b, p.hk, s.query_parts, s.key_blocks, progress_bytes}) : 0);
  const std::int64_t partial_rows = s.parts_apart != 0 ? product({s.query_parts, p.hk, key_tokens(p)}) : 0;
  reserve(&CpuBackwardSchedule::grad_k_partial, "grad_k_partial",
          product({partial_rows, padded_columns(p.d), 4}));
  reserve(&CpuBackwardSchedule::grad_v_partial, "grad_v_partial",
          product({partial_rows, padded_columns(p.dv), 4}));
  const std::int64_t image_bytes = shared.any() ? product({image_heads, p.sq, p.sk, 4}) : 0;
  reserve(&CpuBackwardSchedule::grad_bias_partial, "grad_bias_partial", image_bytes);
  const std::int64_t sharing = product({shared.batches ? p.b : 1, shared.heads ? p.hq : 1});
  reserve(&CpuBackwardSchedule::grad_bias_lost, "grad_bias_lost", sharing > most_additions ? image_bytes : 0);

  const std::int64_t chunks = ceil_divide(p.sq, rows_per_block);
  const std::int64_t rows = product({p.b, p.hq, chunks});
  // Without keys there is no image, and no block to round it.
  const std::int64_t image_rows = image_bytes > 0 ? product({image_heads, chunks}) : 0;
  const std::int64_t grid =
      has_rows ? product({heads, s.parts_apart != 0 ? s.query_parts : 1, plan.splits}) : 0;
  // A block that goes through all parts adds them up in its scratch; after them come the earlier sums of
  // long sums.
  const bool through_all = s.query_parts > 1 && s.parts_apart == 0;
  const std::int64_t sums = adds_often(s, tile.algorithm.block_q) ? 2 : through_all ? 1 : 0;
  const std::int64_t total = product({sums, part_bytes(p, block_k)});
  const KernelKey key = key_of(p, target, cpu_backward, &tile);
  plan.stages = {stage_of(p, target, cpu_backward_delta, nullptr, rows),
                 stage_of(cpu_backward, key, grid, sum({scratch_of(key, target).floats * 4, total}))};
  if (const std::int64_t left = sum({image_rows, p.sink ? p.hq : 0}); left > 0)
    plan.stages.push_back(stage_of(p, target, cpu_backward_convert, nullptr, left));
  for (Stage& stage : plan.stages) stage.schedule = schedule;
  return finish(std::move(plan));
}

const Kernel cpu_backward_delta{
    .name = "cpu_backward_delta", .depends_on = types_only, .schedule = own_schedule};
const Kernel cpu_backward{.name = "cpu_backward",
                          .depends_on = inner_loop_on_cpu,
                          .schedule = own_schedule,
                          .required = required,
                          .rules = own_rules,
                          .seconds = seconds};
const Kernel cpu_backward_convert{
    .name = "cpu_backward_convert", .depends_on = types_only, .schedule = own_schedule};

}  // namespace regard
