// kernels/portable/backward.cu: one block for some keys of a K/V head, and for each part of the columns if
// these do not fit in shared memory.
#include "kernels/portable/backward_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "plan/cost.h"
#include "plan/gpu_rows.h"
#include "plan/kernels/gpu_backward.h"
#include "plan/kernels/kernels.h"
#include "plan/kernels/portable_tile.h"
#include "plan/plan_parts.h"
#include "plan/recipe.h"

namespace regard {
namespace {

portable::BackwardLayout layout_of(const Signature& s, const Algorithm& a, const Target& target) {
  return portable::BackwardLayout(tile_shape_of(s, a, target));
}
portable::BackwardLayout layout_of(const KernelKey& key) {
  return layout_of(key.signature, key.algorithm, target_of(key));
}
/// The layout of a candidate.
portable::BackwardLayout layout_of(const Question& q) {
  return layout_of(signature(q.problem), q.candidate.tile->algorithm, q.target);
}

std::int64_t shared_bytes(const KernelKey& key) {
  return layout_of(key).total();
}

/// A part of the L2 cache of any GPU.
constexpr std::int64_t cache_bytes = std::int64_t{16} << 20;

/// How many (batch, K/V head) pairs fit their Q, dO and sum of dQ in the cache together.
std::int64_t batch_heads_together(const Problem& p) {
  if (mask_hides_nothing(p)) return 1;
  const std::int64_t row = (p.d + p.dv) * static_cast<std::int64_t>(bytes_of(p.dtype)) + p.d * 4;
  const std::int64_t pair = product({p.hq / p.hk, std::max<std::int64_t>(p.sq, 1), row});
  return std::max<std::int64_t>(cache_bytes / pair, 1);
}

/// Whether batches and heads that share a bias's gradient in a fixed order are handled by one block.
bool bias_in_turn(const Problem& p) {
  return p.deterministic && SharedBias(p).any();
}

/// (batch, K/V head) pairs with separate blocks.
std::int64_t batch_heads(const Problem& p) {
  const SharedBias shared(p);
  const bool in_turn = bias_in_turn(p);
  return product({in_turn && shared.batches ? 1 : p.b, in_turn && shared.heads ? 1 : p.hk});
}

/// The cost of a tile of queries: barriers, and products that start and end.
constexpr Seconds of_tile = 0.3e-6;
/// Instructions that read shared memory for each one that multiplies, in a tile of one row and one key.
constexpr double reads = 24;

Seconds seconds(const Plan& plan, const Stage& stage) {
  const Problem& p = plan.problem;
  const Algorithm& a = stage.key.algorithm;
  const portable::BackwardLayout layout = layout_of(stage.key);
  const auto number = [](std::int64_t n) { return static_cast<double>(n); };
  // Each block computes S and dP from all columns, and three products from its own columns.
  const double columns = number(layout.parts) * (3 * number(layout.block_d) + 2 * number(layout.block_dv)) *
                         (2 * number(layout.parts) + 3) / 5;
  const double reading = 1 + reads * (1 / number(a.block_q) + 1 / number(a.block_k));
  const double of_pair = 2 * columns * reading / flops_per_second(plan, p.dtype) +
                         of_tile * number(layout.parts) / number(product({a.block_q, a.block_k}));
  const auto share = plan.target->portable_share.find(Pass::bwd);
  const double reached = share == plan.target->portable_share.end() ? 1 : share->second;
  return number(product({p.b, p.hq})) * visible_scores(p) * of_pair / busy_workers(plan, stage, 1) / reached;
}

Refusal shared_memory_fits(const Question& q) {
  return fits_in_shared_memory(q, layout_of(q).total());
}

Refusal accumulators_leave_room(const Question& q) {
  // The slopes of a soft cap are in registers along with scores and sums. Above these counts the compiler
  // begins to spill.
  const std::int64_t registers = q.target.has(Feature::accumulator_registers) ? 2 : 1;  // in units of 256
  const std::int64_t most_sums = 224 * registers, most_sums_with_more = 160 * registers;
  const Problem& p = q.problem;
  if (p.softcap <= 0) return {};
  const Algorithm& a = q.candidate.tile->algorithm;
  const portable::BackwardLayout layout = layout_of(q);
  const std::int64_t sums = (a.block_k * (layout.block_d + layout.block_dv) + 3 * a.block_q * a.block_k) /
                            (a.warps * q.target.wave);
  const std::int64_t most = p.dbias || p.dropout > 0 ? most_sums_with_more : most_sums;
  if (sums <= most) return {};
  return fmt::format(
      "each thread of its tile has {} sums, scores and slopes, and a soft cap{} leaves registers for {}; "
      "use a smaller block_q or block_k",
      sums,
      p.dbias         ? " with a bias's gradient"
      : p.dropout > 0 ? " with dropout"
                      : "",
      most);
}

bool takes(const Question& q) {
  const Target::Tile& tile = *q.candidate.tile;
  return is_selected(q) && q.problem.d <= tile.max_d && q.problem.dv <= tile.max_dv &&
         std::ranges::find(tile.dtypes, q.problem.dtype) != tile.dtypes.end() && !shared_memory_fits(q) &&
         !accumulators_leave_room(q) && !fragments_divide(q);
}

/// Ensures that a signature has one kernel.
Refusal first_tile_that_fits(const Question& q) {
  for (const Candidate& other : candidates(q.problem.pass, q.target)) {
    if (other.tile == q.candidate.tile) break;
    if (other.recipe != q.candidate.recipe || !takes({q.problem, q.target, other, q.options})) continue;
    return fmt::format(
        "the tile of head dims {}/{} before it in the table takes them; ask for this one by its "
        "numbers",
        other.tile->max_d, other.tile->max_dv);
  }
  return {};
}

std::span<const Rule> own_rules() {
  static constexpr Rule list[] = {
      {"head_dims_aligned", head_dims_aligned},   {"launch_fits", launch_fits},
      {"shared_memory_fits", shared_memory_fits}, {"accumulators_leave_room", accumulators_leave_room},
      {"fragments_divide", fragments_divide},     {"first_tile_that_fits", first_tile_that_fits},
  };
  return list;
}

constexpr Feature features[] = {Feature::matrix};
constexpr AlgorithmField required[] = {&Algorithm::block_q, &Algorithm::block_k, &Algorithm::warps};
constexpr AlgorithmField optional[] = {&Algorithm::block_d, &Algorithm::block_dv, &Algorithm::stages,
                                       &Algorithm::warps_across, &Algorithm::occupancy};

}  // namespace

Result<Plan> plan_portable_backward(const Problem& problem, const Target& target, const Target::Tile& tile,
                                    const PlanOptions& options) {
  const Problem& p = problem;
  Plan plan = start(p, target, options);
  const std::int64_t block_q = tile.algorithm.block_q, group = p.hq / p.hk;
  Stage stage = stage_of(p, target, portable_backward, &tile, 0, 0);
  const portable::BackwardLayout layout = layout_of(stage.key);
  const std::int64_t blocks =
      product({batch_heads(p), ceil_divide(p.sk, tile.algorithm.block_k), layout.parts});
  GpuBackward how;
  how.block_q = block_q;
  how.grad_q_columns = layout.parts * layout.block_d;
  if (block_q % GradQTile::slice_length == 0 && target.has(Feature::mma_layout)) {
    how.order = GradQOrder::fragments;
    how.grad_q_slices = block_q / GradQTile::slice_length;
  }
  how.part_heads = heads_of_part(plan, blocks);
  if (how.part_heads < group) {
    how.grad_k_columns = how.grad_q_columns;
    how.grad_v_columns = layout.parts * layout.block_dv;
  }
  if (p.deterministic) how.turns = product({query_tiles(p, block_q), layout.parts});
  const std::int64_t together = std::min(batch_heads_together(p), std::max<std::int64_t>(batch_heads(p), 1)),
                     head_parts = ceil_divide(group, how.part_heads);
  // Blocks that take turns are not reordered by die, because a block must start after those it waits for.
  how.side_by_side =
      pairs_together(together, product({batch_heads(p), head_parts}), p.deterministic ? 1 : target.dies);
  how.bias_in_turn = bias_in_turn(p);
  how.keys_descend = p.deterministic && has_right_edge(p);
  stage.grid = product({blocks, head_parts});
  stage.shared_bytes = shared_bytes(stage.key);
  return finish_gpu_backward(std::move(plan), std::move(stage), how);
}

const Kernel portable_backward{.name = "portable_backward",
                               .features = features,
                               .depends_on = inner_loop_on_gpu,
                               .schedule = gpu_backward_schedule,
                               .required = required,
                               .optional = optional,
                               .rules = own_rules,
                               .seconds = seconds,
                               .dynamic_shared_bytes = shared_bytes};

}  // namespace regard
