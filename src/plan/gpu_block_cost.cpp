// The expected time of a block of query rows on a GPU, from its tiles of keys.
#include "plan/gpu_block_cost.h"

#include <algorithm>
#include <numeric>

#include "plan/sizes.h"

namespace regard {
namespace {

// For one multiprocessor of an H200, fitted to the tiles of each head dimension at 512 to 16384 keys
// (docs/hopper.md). The softmax of a score, as far as matrix products do not hide it: for 16-bit and 8-bit
// types; three warpgroups that take turns hide more of it than two.
constexpr Seconds of_score[2][2] = {{18e-12, 10e-12}, {12e-12, 6e-12}};
/// A row's first scores and its last output overlap no other work on it.
constexpr Seconds of_row = 15e-9;
/// The multiprocessor's clock is full for this long, and slower under load after that.
constexpr Seconds of_full_clock = 200e-6;
constexpr double full_clock = 1.3;

}  // namespace

MaskEdges::MaskEdges(const Problem& p) {
  if (mask_hides_nothing(p)) return;
  const bool window = p.mask == Mask::window || p.mask == Mask::window_top_left;
  left = window && p.window_left >= 0;
  right = !window || p.window_right >= 0;
}

double keys_of_block(const Problem& p, const Algorithm& a) {
  const auto all = static_cast<double>(round_up(p.sk, a.block_k));
  const MaskEdges edges(p);
  if (!edges.any()) return all;
  const auto beyond = [&](std::int64_t rows) {
    return static_cast<double>(rows - 1 + a.block_k - std::gcd(rows, a.block_k)) / 2;
  };
  double keys = visible_scores(p) / static_cast<double>(std::max<std::int64_t>(p.sq, 1));
  if (edges.right) keys += beyond(a.block_q);
  if (edges.left) keys += beyond(a.block_q * a.cluster_blocks());
  return std::min(all, keys);
}

double clock_of(const Problem& p, double flops_per_second) {
  return bytes_of(p.dtype) > 1 && flops(p) < of_full_clock * flops_per_second ? full_clock : 1;
}

BlockCost::BlockCost(const Problem& p, const Algorithm& a, double flops_per_second, Seconds of_tile) {
  const Seconds of_pair = 2 * static_cast<double>(p.d + p.dv) / flops_per_second +
                          of_score[bytes_of(p.dtype) == 1 ? 1 : 0][a.warp_groups > 2 ? 1 : 0];
  of_rows = static_cast<double>(a.block_q) * of_row;
  of_key = static_cast<double>(a.block_q) * of_pair + of_tile / static_cast<double>(a.block_k);
}

double drawn_share(double busy, double multiprocessors) {
  const double part = busy / multiprocessors;
  return part <= 0.5 ? 1.75 * part : std::min(0.55 + 0.45 * part, 1.0);
}

}  // namespace regard
