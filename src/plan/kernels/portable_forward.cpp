// kernels/portable/forward.cu: one block per tile of query rows of a head and part of the keys.
#include "kernels/portable/forward_schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "plan/gpu_block_cost.h"
#include "plan/gpu_rows.h"
#include "plan/kernels/kernels.h"
#include "plan/kernels/portable_tile.h"
#include "plan/plan_parts.h"
#include "plan/recipe.h"

namespace regard {
namespace {

/// How many query heads of a K/V head are treated as rows of one head, so that a block reads K and V once
/// for all its rows. Kernels that read pages do so for any rows, unless scores or bits depend on the head;
/// others if each head has one row, all rows see the same keys, and nothing depends on head or row. 1: they
/// are not packed.
std::int64_t pack_gqa(const Problem& p) {
  const bool changed_by_head = p.bias != Bias::none || p.dropout > 0 || p.bits;
  if (inner_loop_on_cache(signature(p)).paged) return changed_by_head ? 1 : p.hq / p.hk;
  const bool by_head = changed_by_head || p.sink || p.ranges;
  const bool sees_all = p.sq == 1 && mask_hides_nothing(p) && !p.varlen && !by_head;
  return sees_all ? p.hq / p.hk : 1;
}

portable::ForwardLayout layout_of(const Signature& s, const Algorithm& a, const Target& target) {
  return portable::ForwardLayout(tile_shape_of(s, a, target));
}

std::int64_t shared_bytes(const KernelKey& key) {
  return layout_of(key.signature, key.algorithm, target_of(key)).total();
}

/// A part of the L2 cache of any GPU.
constexpr std::int64_t cache_bytes = std::int64_t{16} << 20;

/// The problem as the kernel sees it.
Problem with_pack_gqa(const Problem& problem) {
  const std::int64_t heads = pack_gqa(problem);
  if (heads == 1) return problem;
  Problem p = problem;
  p.hq /= heads;
  p.sq *= heads;
  p.tq *= heads;
  if (mask_hides_nothing(problem)) p.mask = Mask::none;
  return p;
}

/// Finishes a plan made from the packed problem; `problem` is the caller's.
Result<Plan> finish_portable(Plan plan, const Problem& problem) {
  plan.problem = problem;
  return finish(std::move(plan));
}

std::int64_t row_blocks(const Problem& p, std::int64_t block_q) {
  return product({p.b, p.hq, ceil_divide(p.sq, block_q)});
}

Stage forward_stage(const Plan& plan, const Target::Tile& tile, std::int64_t heads) {
  const Problem& p = plan.problem;
  Stage stage = stage_of(p, *plan.target, portable_forward, &tile,
                         product({row_blocks(p, tile.algorithm.block_q), plan.splits}), 0);
  stage.shared_bytes = shared_bytes(stage.key);
  const std::int64_t together =
      pairs_together(batch_heads_side_by_side(p, cache_bytes), product({p.b, p.hq}), plan.target->dies);
  stage.schedule = Schedule(PortableForwardSchedule{split_seen_keys_of(plan), together, heads});
  return stage;
}

Refusal latent_tile(const Question& q) {
  const Problem& p = q.problem;
  const Target::Tile& tile = *q.candidate.tile;
  if (!portable::shares_tile(true, tile.max_d)) return {};
  if (!portable::shares_tile(p.latent, p.d))
    return fmt::format("its tile for head dim {} has V in the columns of K; give latent, and no V",
                       tile.max_d);
  if (p.descale == Descale::token || p.descale == Descale::page)
    return fmt::format(
        "its tile for head dim {} has K as V, and no factors of each key; use descale=tensor or "
        "descale=head",
        tile.max_d);
  const std::int64_t step = tile.algorithm.block_d;
  if (step == 0 || step == tile.max_d) return {};
  return fmt::format("block_d={} does not go with a tile whose V is read from whole rows of K", step);
}

Refusal two_warps_share_rows(const Question& q) {
  const Target::Tile& tile = *q.candidate.tile;
  const std::int64_t across = tile.algorithm.warps_across, warps = tile.algorithm.warps,
                     keys = tile.algorithm.block_k;
  if (across <= 1) return {};
  // A warp's keys are a part of a line of shared memory, or whole lines.
  const bool halves = keys == 32 || keys == 64 || (keys > 0 && keys % 128 == 0);
  const bool even = warps > 1 && std::has_single_bit(static_cast<std::uint64_t>(warps));
  if (across == 2 && bytes_of(q.problem.dtype) <= 2 && even && halves) return {};
  return fmt::format(
      "warps_across={} does not go with its tile: two warps may share rows, of 2, 4, 8 or 16, with operands "
      "of 16 bits or less and 32 or 64 keys or a multiple of 128",
      across);
}

Refusal accumulators_leave_room(const Question& q) {
  // Features that change scores use registers along with the sums; a bias, which is loaded ahead, uses the
  // most. Above these counts the compiler begins to spill. They count the tile's columns: with a smaller dv
  // the kernel has fewer sums, but spills all the same where these counts would refuse it.
  const std::int64_t registers = q.target.has(Feature::accumulator_registers) ? 2 : 1;  // in units of 256
  const std::int64_t most_scores = 64 * registers, most_sums = 160 * registers;
  const std::int64_t most_sums_by_plain_loads = 96 * registers;  // loads that pass through registers
  const std::int64_t most_sums_by_converted_pages = 144 * registers;
  const Problem& p = q.problem;
  const bool bias = has_elementwise_bias(p.bias), bias_and_dropout = p.bias != Bias::none && p.dropout > 0;
  const bool wide_mask = (p.mask != Mask::none || p.bits) && p.d > 128;
  // With batch_invariant dense keys get the tile that those in pages have.
  const bool in_pages = p.paged > 0 || p.batch_invariant;
  const bool modified_in_pages = in_pages && p.softcap > 0 && p.bias != Bias::none;
  const bool converted_pages = in_pages && bytes_of(p.kv) == 1 && p.d > 192;

  // For a wave's rows, distributed over its lanes.
  const Target::Tile& tile = *q.candidate.tile;
  const std::int64_t step = tile.algorithm.block_dv, columns = step > 0 ? step : tile.max_dv;
  const std::int64_t rows = tile.algorithm.block_q / tile.algorithm.warps;
  const std::int64_t scores = rows * tile.algorithm.block_k / q.target.wave;
  const std::int64_t sums = scores + rows * columns / q.target.wave;
  if ((bias || p.bits || p.dropout > 0) && scores > most_scores)
    return fmt::format(
        "each thread of its tile has {} scores, and {} leaves registers for {}; use a smaller block_k",
        scores,
        bias     ? "a bias"
        : p.bits ? "a mask of bits"
                 : "dropout",
        most_scores);

  const bool plain_loads = !q.target.has(Feature::async_copy);
  const std::int64_t most = bias_and_dropout && plain_loads ? most_sums_by_plain_loads
                            : converted_pages               ? most_sums_by_converted_pages
                                                            : most_sums;
  if ((bias || bias_and_dropout || wide_mask || modified_in_pages || converted_pages) && sums > most)
    return fmt::format(
        "each thread of its tile has {} accumulators, and {} leaves registers for {}; use a smaller "
        "block_q",
        sums,
        bias_and_dropout  ? "a bias with dropout"
        : bias            ? "a bias"
        : converted_pages ? "8-bit pages at a head dim above 192"
        : wide_mask       ? "a mask at a head dim above 128"
                          : "a soft cap with ALiBi in pages",
        most);
  return {};
}

Refusal split_pays(const Question& q) {
  const Problem& p = q.problem;
  if (!may_split(q) || parts_of_long_rows(p) > 1) return {};
  const std::int64_t blocks = row_blocks(with_pack_gqa(p), q.candidate.tile->algorithm.block_q);
  if (Refusal refusal = blocks_are_few(q, blocks, workers(q.target, q.options))) return refusal;
  return keys_are_many(q, 2 * least_split_keys);
}

Refusal shared_memory_fits(const Question& q) {
  return fits_in_shared_memory(
      q, layout_of(signature(q.problem), q.candidate.tile->algorithm, q.target).total());
}

std::span<const Rule> own_rules() {
  static constexpr Rule list[] = {
      {"reads_cache", reads_cache},
      {"has_many_rows", has_many_rows, true},
      {"split_pays", split_pays, true},
      {"long_sums", long_sums, true},
      {"parts_are_invariant", parts_are_invariant, true},
      {"combine_columns", combine_columns},
      {"latent_tile", latent_tile},
      {"head_dims_aligned", head_dims_aligned},
      {"launch_fits", launch_fits},
      {"two_warps_share_rows", two_warps_share_rows},
      {"shared_memory_fits", shared_memory_fits},
      {"accumulators_leave_room", accumulators_leave_room},
      {"fragments_divide", fragments_divide},
  };
  return list;
}

/// K and V of an 8-bit type of their own are converted number by number: that takes longer than reading them.
constexpr double of_converting = 2;
/// Reading and computing overlap, except for this fraction: of two tiles that read the same, the one that
/// computes less is better.
constexpr double of_the_lesser = 0.1;

Seconds seconds(const Plan& plan, const Stage& stage) {
  const Problem& p = plan.problem;
  const double busy = busy_workers(plan, stage), rate = flops_per_second(plan, p.dtype);
  const bool packs_gqa = stage.schedule.as<PortableForwardSchedule>().pack_gqa > 1;
  const Seconds reading = seconds_to_read(plan, packs_gqa) * (p.kv == p.dtype ? 1 : of_converting) /
                          (plan.workers * drawn_share(busy, plan.workers));
  const Algorithm& a = stage.key.algorithm;
  const Seconds of_block =
      BlockCost(p, a, rate, of_tile).seconds(keys_of_block(p, a) / static_cast<double>(plan.splits));
  const Seconds computed =
      of_block / clock_of(p, rate * plan.workers) * static_cast<double>(stage.grid) / busy;
  // If there is also a kernel specific to the GPU, both use the same cost model, so that this one never
  // looks better because of its smaller tiles. The share also applies to reading, as it has not been
  // measured separately.
  const auto share = plan.target->portable_share.find(Pass::fwd);
  if (share == plan.target->portable_share.end()) return std::max(computed, reading);
  return (std::max(computed, reading) + of_the_lesser * std::min(computed, reading)) / share->second;
}

std::vector<ScheduleNumber> schedule_numbers(const Schedule& bytes) {
  return {{"side_by_side", bytes.as<PortableForwardSchedule>().side_by_side}};
}

constexpr Feature features[] = {Feature::matrix};
constexpr AlgorithmField required[] = {&Algorithm::block_q, &Algorithm::block_k, &Algorithm::warps};
constexpr AlgorithmField optional[] = {&Algorithm::block_d, &Algorithm::block_dv, &Algorithm::stages,
                                       &Algorithm::warps_across, &Algorithm::occupancy};

}  // namespace

Result<Plan> plan_portable_forward(const Problem& problem, const Target& target, const Target::Tile& tile,
                                   const PlanOptions& options) {
  Plan plan = start(with_pack_gqa(problem), target, options);
  plan.stages = {forward_stage(plan, tile, pack_gqa(problem))};
  return finish_portable(std::move(plan), problem);
}

Result<Plan> plan_portable_forward_split(const Problem& problem, const Target& target,
                                         const Target::Tile& tile, const PlanOptions& options) {
  Plan plan = start(with_pack_gqa(problem), target, options);
  const std::int64_t block_k = tile.algorithm.block_k, parts = parts_of_long_rows(problem);
  if (cuts_at_multiples(problem))
    split_at_multiples(plan, block_k);
  else
    split_as_asked(plan, parts_for_workers(plan, row_blocks(plan.problem, tile.algorithm.block_q)), block_k);
  if (plan.splits < parts) split_keys(plan, parts, block_k);
  plan.stages = {forward_stage(plan, tile, pack_gqa(problem))};
  merge_on_gpu(plan, pack_gqa(problem));
  return finish_portable(std::move(plan), problem);
}

const Kernel portable_forward{
    .name = "portable_forward",
    .features = features,
    .depends_on = inner_loop_on_cache,
    .schedule = {"PortableForwardSchedule", sizeof(PortableForwardSchedule), schedule_numbers},
    .required = required,
    .optional = optional,
    .rules = own_rules,
    .seconds = seconds,
    .dynamic_shared_bytes = shared_bytes};

}  // namespace regard
