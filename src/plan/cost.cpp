#include "plan/cost.h"

#include <algorithm>
#include <cmath>

#include "plan/kernel.h"
#include "plan/sizes.h"
#include "plan/stage.h"

namespace regard {
namespace {

constexpr double giga = 1e9;

/// Waking the workers for one stage, and for one that begins while the previous one ends.
constexpr Seconds stage_overhead = 5e-6, overlapping_stage_overhead = 3e-6;
/// Used where the target's table has no number.
constexpr double default_flops_per_second = 10 * giga;
constexpr double default_bytes_per_second = 10 * giga;

double share(const Plan& plan, double rate) {
  return plan.target->on_cpu() ? rate : rate / plan.workers;
}

}  // namespace

double flops_per_second(const Plan& plan, DType dtype) {
  const auto rate = plan.target->gflops.find(dtype);
  return rate == plan.target->gflops.end() ? default_flops_per_second : share(plan, rate->second * giga);
}

double bytes_per_second(const Plan& plan) {
  const double rate = plan.target->gigabytes_per_second;
  return rate > 0 ? share(plan, rate * giga) : default_bytes_per_second;
}

double chip_bytes_per_second(const Plan& plan) {
  return bytes_per_second(plan) * plan.workers;
}

double busy_workers(const Plan& plan, const Stage& stage, double at_once) {
  const double grid = static_cast<double>(std::max<std::int64_t>(stage.grid, 1));
  return grid / std::ceil(grid / (at_once * plan.workers)) / at_once;
}

double busy_workers(const Plan& plan, const Stage& stage) {
  return busy_workers(plan, stage, stage.key.algorithm.warps <= 4 ? 2 : 1);
}

Seconds seconds_to_compute(const Plan& plan, std::int64_t rows_of_tile, bool heads_share_blocks,
                           double flops_per_second) {
  const Problem& p = plan.problem;
  const std::int64_t heads = heads_share_blocks ? p.hq / p.hk : 1;
  const double rows = static_cast<double>(std::max<std::int64_t>(product({heads, p.sq}), 1));
  const double tile = static_cast<double>(std::max<std::int64_t>(rows_of_tile, 1));
  const double padding = std::ceil(rows / tile) * tile / rows;
  return flops(p) * padding / flops_per_second;
}

Seconds seconds_to_read(const Plan& plan, bool heads_share_blocks) {
  const Problem& p = plan.problem;
  const double heads = static_cast<double>(heads_share_blocks ? p.hk : p.hq);
  const double seen = p.sk > 0 ? static_cast<double>(visible_keys(p)) / static_cast<double>(p.sk) : 1;
  const double keys = seen * static_cast<double>(key_tokens(p));
  const std::int64_t columns = p.latent ? p.d : p.d + p.dv;
  return keys * heads * static_cast<double>(columns) * static_cast<double>(bytes_of(p.kv)) /
         bytes_per_second(plan);
}

Seconds cost_seconds(const Plan& plan) {
  Seconds total = 0;
  for (const Stage& stage : plan.stages) {
    total += stage.overlaps ? overlapping_stage_overhead : stage_overhead;
    if (stage.kernel->seconds != nullptr) total += stage.kernel->seconds(plan, stage);
  }
  // What one stage leaves for the next is written once and read once.
  const std::int64_t scratch = plan.workspace.bytes_of("scratch");
  return total + 2 * static_cast<double>(plan.workspace.total - scratch) / chip_bytes_per_second(plan);
}

}  // namespace regard
