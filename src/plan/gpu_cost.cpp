// What forward is expected to take on a GPU: blocks of query rows, each from its tiles of keys.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "plan/gpu_plans.h"
#include "plan/pipelines.h"
#include "plan/sizes.h"

namespace regard {
namespace {

using Seconds = double;

// Of one multiprocessor of an H200, fitted to the tiles of each head dimension at 512 to 16384 keys
// (docs/hopper.md).
/// The softmax of a score, as far as matrix products do not hide it: of 16 and of 8 bits; three warpgroups
/// that take turns hide more of it than two.
constexpr Seconds of_score[2][2] = {{18e-12, 10e-12}, {12e-12, 6e-12}};
/// A tile of keys has barriers, and products that begin and end. A warpgroup that is alone waits for no
/// other.
constexpr Seconds of_tile = 0.3e-6, of_tile_alone = 0.25e-6;
/// A row's first scores and its last output lie beside no other work on it.
constexpr Seconds of_row = 15e-9;
/// A block whose Q has one place waits for it.
constexpr Seconds of_lone_query = 0.17e-6;
/// Blocks of a cluster draw K and V from the second-level cache once for both, which leaves power for a
/// higher clock. Short calls, at full clock anyway, gain with a mask alone, if they have some rounds.
constexpr double in_cluster = 0.96, some_rounds = 2;
/// They wait for each other: without a mask, with one, and then for each tile that only one of them sees.
constexpr Seconds of_meeting = 0.3e-6, of_meeting_with_mask = 0.5e-6, of_tile_seen_by_one = 0.2e-6;

/// The multiprocessor's clock, full for so long, is slower under load after that.
constexpr Seconds of_full_clock = 200e-6;
constexpr double full_clock = 1.3;
/// The merge of parts, for each part: many of them come together.
constexpr Seconds of_merged_part = 0.05e-6;
/// It writes and reads rows of fp32 at this share of the memory's rate.
constexpr double rate_of_merge = 0.35;

std::int64_t blocks_together(const Algorithm& a) {
  return std::max<std::int64_t>(a.cluster, 1);
}

/// Edges that a mask draws through the scores of a block.
struct Edges {
  bool left = false, right = false;

  explicit Edges(const Problem& p) {
    if (mask_hides_nothing(p)) return;
    const bool window = p.mask == Mask::window || p.mask == Mask::window_top_left;
    left = window && p.window_left >= 0;
    right = !window || p.window_right >= 0;
  }
  bool any() const { return left || right; }
  bool both() const { return left && right; }
};

/// Keys that a block computes, on average: an edge moves by a key a row, and ends somewhere in a tile. Blocks
/// of a cluster go through the same tiles; at the right edge each passes over those that it does not see.
double keys_of_block(const Problem& p, const Algorithm& a) {
  const auto all = static_cast<double>(round_up(p.sk, a.block_k));
  const Edges edges(p);
  if (!edges.any()) return all;
  const auto beyond = [&](std::int64_t rows) {
    return static_cast<double>(rows - 1 + a.block_k - std::gcd(rows, a.block_k)) / 2;
  };
  double keys = visible_pairs(p) / static_cast<double>(std::max<std::int64_t>(p.sq, 1));
  if (edges.right) keys += beyond(a.block_q);
  if (edges.left) keys += beyond(a.block_q * blocks_together(a));
  return std::min(all, keys);
}

/// How much faster than in a long run. Where 8-bit V is turned meanwhile it makes no difference.
double clock_of(const Problem& p, double flops_per_second) {
  return bytes_of(p.dtype) > 1 && flops(p) < of_full_clock * flops_per_second ? full_clock : 1;
}

/// What a block of query rows takes: its rows, and each key that it computes.
struct Block {
  Seconds of_rows, of_key;

  Block(const Problem& p, const Algorithm& a, double flops_per_second, Seconds tile) {
    const Seconds of_pair = 2 * static_cast<double>(p.d + p.dv) / flops_per_second +
                            of_score[bytes_of(p.dtype) == 1 ? 1 : 0][a.warp_groups > 2 ? 1 : 0];
    of_rows = static_cast<double>(a.block_q) * of_row;
    of_key = static_cast<double>(a.block_q) * of_pair + tile / static_cast<double>(a.block_k);
  }
  Seconds seconds(double keys) const { return of_rows + keys * of_key; }
};

/// `faster`: the clock, over that of a long run.
Seconds hopper_seconds(const Plan& plan, const KernelKey& kernel, double flops_per_second, double faster,
                       double traffic) {
  const Problem& p = plan.problem;
  const Algorithm& a = kernel.algorithm;
  const Edges edges(p);
  const double blocks = static_cast<double>(sm90_work(p, a.block_q, blocks_together(a))) *
                        static_cast<double>(plan.splits),
               rounds = blocks / plan.threads;
  Block block(p, a, flops_per_second, a.block_q == Sm90ForwardLayout::group_rows ? of_tile_alone : of_tile);
  Seconds waits = 0;
  if (sm90_layout(kernel).q_stages == 1) waits += of_lone_query;
  if (a.cluster > 1) {
    const double tiles_across = static_cast<double>(a.block_q) / static_cast<double>(a.block_k);
    waits += edges.any() ? of_meeting_with_mask + of_tile_seen_by_one * tiles_across : of_meeting;
    if (faster == 1 || (edges.any() && rounds > some_rounds)) block.of_key *= in_cluster;
  }
  const auto work_of = [&](double keys) { return (block.seconds(keys) + waits) / faster; };
  // In turn, or whoever is free takes the longest that is left. All parts but the last are of one length, and
  // a mask may leave most of them empty.
  const double keys = keys_of_block(p, a);
  const auto part = static_cast<double>(round_up(plan.split_keys, a.block_k));
  if (!edges.any()) {
    const Seconds computed = work_of(std::min(keys, part));
    const auto round_of = [&](double at_once) {
      const double drawn = drawn_share(at_once, plan.threads) * plan.threads;
      return at_once <= 0 ? 0 : std::max(computed, traffic / blocks * at_once / drawn);
    };
    const double whole = std::floor(rounds);
    return whole * round_of(plan.threads) + round_of(blocks - whole * plan.threads);
  }
  const double longest = edges.both() ? keys : static_cast<double>(visible_keys(p));
  return std::max(work_of(keys / static_cast<double>(plan.splits)) * rounds,
                  work_of(std::min(longest, part)));
}

}  // namespace

double drawn_share(double busy, double multiprocessors) {
  const double part = busy / multiprocessors;
  return part <= 0.5 ? 1.75 * part : std::min(0.55 + 0.45 * part, 1.0);
}

double gpu_merge_seconds(const Plan& plan, double bytes_per_second) {
  if (plan.splits == 1) return 0;
  const auto bytes = [&](Part part) {
    return static_cast<double>(plan.workspace.bytes[static_cast<std::size_t>(part)]);
  };
  const double written_and_read = 2 * (bytes(Part::partial_o) + bytes(Part::partial_lse));
  return of_merged_part * static_cast<double>(plan.splits) +
         (1 / rate_of_merge - 1) * written_and_read / bytes_per_second;
}

double gpu_forward_seconds(const Plan& plan, const Stage& stage, double flops_per_second, double busy,
                           double traffic) {
  const Problem& p = plan.problem;
  const Algorithm& a = stage.kernel.algorithm;
  const double faster = clock_of(p, flops_per_second * plan.threads);
  if (source_folder(a.pipeline) == "sm90")
    return hopper_seconds(plan, stage.kernel, flops_per_second, faster, traffic);
  const Block block(p, a, flops_per_second, of_tile);
  return block.seconds(keys_of_block(p, a) / static_cast<double>(plan.splits)) / faster *
         static_cast<double>(stage.grid) / busy;
}

}  // namespace regard
