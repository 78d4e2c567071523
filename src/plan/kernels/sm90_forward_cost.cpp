// The expected time of the kernel: persistent blocks take work in turn, or the next free block takes the
// longest work that is left.
#include <algorithm>
#include <cmath>

#include "plan/gpu_block_cost.h"
#include "plan/kernels/sm90_forward.h"
#include "plan/sizes.h"

namespace regard {
namespace {

// Costs on one multiprocessor of an H200, fitted like those of gpu_block_cost.cpp.
/// A single warpgroup waits for no other.
constexpr Seconds of_tile_alone = 0.25e-6;
/// A block with one slot for Q waits for it.
constexpr Seconds of_lone_query = 0.17e-6;
/// Blocks of a cluster read K and V from the L2 cache once for both, which leaves power for a higher clock.
/// Short calls, which run at full clock anyway, gain only with a mask, if they have some rounds.
constexpr double in_cluster = 0.96, some_rounds = 2;
/// Blocks of a cluster wait for each other: without a mask, with one, and then for each tile that only one
/// of them sees.
constexpr Seconds of_meeting = 0.3e-6, of_meeting_with_mask = 0.5e-6, of_tile_seen_by_one = 0.2e-6;

/// `faster`: the clock relative to that of a long run.
Seconds computed_seconds(const Plan& plan, const KernelKey& kernel, double flops_per_second, double faster,
                         double traffic) {
  const Problem& p = plan.problem;
  const Algorithm& a = kernel.algorithm;
  const MaskEdges edges(p);
  const double blocks = static_cast<double>(sm90_work(p, a.block_q, a.cluster_blocks())) *
                        static_cast<double>(plan.splits),
               rounds = blocks / plan.workers;
  BlockCost block(p, a, flops_per_second,
                  a.block_q == Sm90ForwardLayout::group_rows ? of_tile_alone : of_tile);
  Seconds waits = 0;
  if (sm90_layout(kernel).q_stages == 1) waits += of_lone_query;
  if (a.cluster > 1) {
    const double tiles_across = static_cast<double>(a.block_q) / static_cast<double>(a.block_k);
    waits += edges.any() ? of_meeting_with_mask + of_tile_seen_by_one * tiles_across : of_meeting;
    if (faster == 1 || (edges.any() && rounds > some_rounds)) block.of_key *= in_cluster;
  }
  const auto work_of = [&](double keys) { return (block.seconds(keys) + waits) / faster; };
  // In turn, or the next free block takes the longest work that is left. All parts but the last have the
  // same length, and a mask may leave most of them empty.
  const double keys = keys_of_block(p, a);
  const auto part = static_cast<double>(round_up(plan.split_keys, a.block_k));
  if (!edges.any()) {
    const Seconds computed = work_of(std::min(keys, part));
    const auto round_of = [&](double at_once) {
      const double drawn = drawn_share(at_once, plan.workers) * plan.workers;
      return at_once <= 0 ? 0 : std::max(computed, traffic / blocks * at_once / drawn);
    };
    const double whole = std::floor(rounds);
    return whole * round_of(plan.workers) + round_of(blocks - whole * plan.workers);
  }
  const double longest = edges.both() ? keys : static_cast<double>(visible_keys(p));
  return std::max(work_of(keys / static_cast<double>(plan.splits)) * rounds,
                  work_of(std::min(longest, part)));
}

}  // namespace

Seconds sm90_forward_seconds(const Plan& plan, const Stage& stage) {
  const double busy = busy_workers(plan, stage), rate = flops_per_second(plan, plan.problem.dtype);
  const Seconds read = seconds_to_read(plan, stage.key.algorithm.pack_gqa > 0);
  const Seconds computed =
      computed_seconds(plan, stage.key, rate, clock_of(plan.problem, rate * plan.workers), read);
  return std::max(computed, read / (plan.workers * drawn_share(busy, plan.workers)));
}

}  // namespace regard
