#include "plan/cost.h"

#include <algorithm>
#include <cmath>

#include "kernels/cpu/forward_layout.h"
#include "plan/gpu_plans.h"
#include "plan/sizes.h"
#include "plan/stage.h"

namespace regard {
namespace {

using Seconds = double;
constexpr double giga = 1e9;

/// Waking the threads for one stage; for one that begins while the last ends.
constexpr Seconds stage_overhead = 5e-6, overlapping_stage_overhead = 3e-6;
/// The kernels with run-time flags do about one multiply-add at a time.
constexpr double generic_flops_per_second = 1.5 * giga;
/// What the kernel of warp matrix instructions reaches beside that of warp-group ones (H200: 340 of 650
/// TFLOP/s); it is charged for reading too, where nobody has measured it.
constexpr double warp_instructions = 0.52;
/// Reading and computing go on beside each other, but for this: of two tiles that read alike the one that
/// computes less is the better one.
constexpr double of_the_lesser = 0.1;
/// Where the target's table says nothing.
constexpr double default_flops_per_second = 10 * giga;
constexpr double default_bytes_per_second = 10 * giga;

/// A CPU's table has the rates of one core, a GPU's those of the chip.
double share(const Plan& plan, double rate) {
  return plan.target->kind == TargetKind::cpu ? rate : rate / plan.threads;
}

double flops_per_second(const Plan& plan, DType dtype) {
  const auto rate = plan.target->gflops.find(dtype);
  return rate == plan.target->gflops.end() ? default_flops_per_second : share(plan, rate->second * giga);
}

double bytes_per_second(const Plan& plan) {
  const double rate = plan.target->gigabytes_per_second;
  return rate > 0 ? share(plan, rate * giga) : default_bytes_per_second;
}

double chip_bytes_per_second(const Plan& plan) {
  return bytes_per_second(plan) * plan.threads;
}

bool is_main(std::string_view kernel) {
  return kernel != "combine" && kernel != "backward_delta" && kernel != "backward_convert" &&
         kernel != "append_kv";
}

/// The query rows of a K/V head go through its blocks together.
bool packs_group(const Plan& plan, const Algorithm& algorithm) {
  const std::string& kernel = algorithm.kernel;
  return kernel == "decode" || kernel == "paged_forward" || kernel == "batch_prefill" ||
         algorithm.group > 0 || plan.heads_as_rows > 1 || plan.heads_together > 1;
}

/// Blocks that a thread, or a GPU's multiprocessor, needs at once to be busy: one of four warps leaves the
/// matrix units waiting half of the time.
double blocks_per_thread(const Plan& plan, const Stage& stage) {
  return plan.target->kind != TargetKind::cpu && stage.kernel.algorithm.warps <= 4 ? 2 : 1;
}

/// Blocks run in rounds; in the last round some threads idle.
double busy_threads(const Plan& plan, const Stage& stage) {
  const double grid = static_cast<double>(std::max<std::int64_t>(stage.grid, 1));
  const double each = blocks_per_thread(plan, stage);
  return grid / std::ceil(grid / (each * plan.threads)) / each;
}

double products_per_second(const Plan& plan, const Algorithm& algorithm) {
  const double rate = flops_per_second(plan, plan.problem.dtype);
  // With few rows the products wait for loads, and go to vectors whatever matrix unit there is
  // (bench/cpu/recipes.py).
  const bool waits = plan.target->kind == TargetKind::cpu && algorithm.kernel == "decode";
  return waits ? 0.6 * std::min(rate, 2 * flops_per_second(plan, DType::fp32)) : rate;
}

/// Computed as whole tiles of rows.
Seconds arithmetic(const Plan& plan, const Stage& stage) {
  const Problem& p = plan.problem;
  const std::string& kernel = stage.kernel.algorithm.kernel;
  if (kernel.starts_with("generic_")) return flops(p) / generic_flops_per_second;
  const Algorithm& algorithm = stage.kernel.algorithm;
  const std::int64_t heads = packs_group(plan, algorithm) ? p.hq / p.hk : 1;
  const double rows = static_cast<double>(std::max<std::int64_t>(product({heads, p.sq}), 1));
  const bool on_cpu = plan.target->kind == TargetKind::cpu;
  const std::int64_t block_q = kernel == "forward" && on_cpu ? ForwardLayout::tile : algorithm.block_q;
  const double tile = static_cast<double>(std::max<std::int64_t>({algorithm.group, block_q, 1}));
  const double padding = std::ceil(rows / tile) * tile / rows;
  return flops(p) * padding / products_per_second(plan, algorithm);
}

/// K and V, as far as some row sees them, are read once where query heads share blocks, else once per query
/// head.
Seconds traffic(const Plan& plan, const Stage& stage) {
  const Problem& p = plan.problem;
  const double heads = static_cast<double>(packs_group(plan, stage.kernel.algorithm) ? p.hk : p.hq);
  const double seen = p.sk > 0 ? static_cast<double>(visible_keys(p)) / static_cast<double>(p.sk) : 1;
  const double keys = seen * static_cast<double>(key_tokens(p));
  return keys * heads * static_cast<double>(p.d + p.dv) * static_cast<double>(bytes_of(p.dtype)) /
         bytes_per_second(plan);
}

/// Both kernels of a chip that has warp-group instructions follow one model, so that the slower one never
/// looks better for its smaller tiles.
Seconds of_gpu_forward(const Plan& plan, const Stage& stage) {
  const bool slower = plan.target->has("wgmma") && !stage.kernel.algorithm.pipeline.starts_with("wgmma");
  const double busy = busy_threads(plan, stage);
  const Seconds read = traffic(plan, stage);
  const Seconds computed =
      gpu_forward_seconds(plan, stage, flops_per_second(plan, plan.problem.dtype), busy, read);
  const Seconds reading = read / (plan.threads * drawn_share(busy, plan.threads));
  if (!slower) return std::max(computed, reading);
  return (std::max(computed, reading) + of_the_lesser * std::min(computed, reading)) / warp_instructions;
}

/// A CPU's decode kernel computes while K and V are on their way; the others pack them first, for each block
/// of rows. K may be read where it lies; how it lies is not known here.
Seconds of_blocks(const Plan& plan, const Stage& stage) {
  const std::string& kernel = stage.kernel.algorithm.kernel;
  if (plan.target->kind != TargetKind::cpu || kernel != "forward")
    return std::max(arithmetic(plan, stage), traffic(plan, stage));
  const double rows = static_cast<double>(plan.heads_together) * static_cast<double>(plan.problem.sq);
  const double row_blocks = std::ceil(rows / static_cast<double>(std::max<std::int64_t>(plan.block_rows, 1)));
  // Read, and written; not counted is what parts of the last blocks pack again.
  return arithmetic(plan, stage) + 2 * row_blocks * traffic(plan, stage);
}

/// New keys and values are read and written once.
Seconds appended(const Plan& plan) {
  const Problem& p = plan.problem;
  const double rows = static_cast<double>(p.b) * static_cast<double>(p.snew) * static_cast<double>(p.hk);
  return 2 * rows * static_cast<double>(p.d + p.dv) * static_cast<double>(bytes_of(p.dtype)) /
         bytes_per_second(plan);
}

}  // namespace

double cost_seconds(const Plan& plan) {
  Seconds total = 0;
  const bool on_gpu = plan.target->kind == TargetKind::cuda;
  for (const Stage& stage : plan.stages) {
    total += overlaps_the_stage_before(stage, *plan.target) ? overlapping_stage_overhead : stage_overhead;
    if (stage.kernel.algorithm.kernel == "append_kv") total += appended(plan) / busy_threads(plan, stage);
    if (!is_main(stage.kernel.algorithm.kernel)) continue;
    total += on_gpu && stage.kernel.algorithm.kernel == "forward"
                 ? of_gpu_forward(plan, stage)
                 : of_blocks(plan, stage) / busy_threads(plan, stage);
  }
  if (on_gpu) total += gpu_merge_seconds(plan, chip_bytes_per_second(plan));
  // What one stage leaves for the next is written once and read once.
  const std::int64_t scratch = plan.workspace.bytes[static_cast<std::size_t>(Part::scratch)];
  return total + 2 * static_cast<double>(plan.workspace.total - scratch) / chip_bytes_per_second(plan);
}

}  // namespace regard
